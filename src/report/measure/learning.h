// Improves predictions by the user's own measurements.
#pragma once

#include <cstddef>

#include "report/explain/explain.h"

namespace tessera::report {

// Adds the measured times of the explained model's kernels to this CPU's calibration (see calibration_path), for later
// predictions of similar operators. The calibration is for one thread and for all cores, so the model must have run
// with one of these. Returns the number of operators that it learned from. The file is replaced as a whole; if two
// programs do so at the same time, the later one wins. Throws Error(not_found) if this CPU was not calibrated;
// Error(invalid_argument) if nothing was measured on this CPU, or in another precision than f32 or bf16, in which its
// kernels compute, or with another number of threads; and Error(io).
std::size_t learn_from(const Explanation& explanation);
// Throws the errors of learn_from for this precision, before anything is measured.
void check_learnable(cost::Precision precision);

}  // namespace tessera::report
