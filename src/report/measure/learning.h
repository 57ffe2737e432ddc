// Predictions that improve with what users measure.
#pragma once

#include <cstddef>

#include "report/explain/explain.h"

namespace tessera::report {

// Adds the measured times of the explained model's kernels to the calibration of this CPU (see calibration_path), for
// later predictions of operators alike. The calibration has them for one thread and for all cores, so these are what
// may have run. Returns how many operators it learned from. The file is replaced as a whole; of two programs that learn
// at the same time the later one wins. Throws Error: not_found (this CPU was not calibrated), invalid_argument (nothing
// was measured on this CPU, or not in f32 or bf16, in which its kernels compute, or with another number of threads),
// io.
std::size_t learn_from(const Explanation& explanation);
// Throws as learn_from does where it would for this precision: before anything is measured.
void check_learnable(cost::Precision precision);

}  // namespace tessera::report
