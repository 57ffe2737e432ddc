// Mixup of the pictures of a batch (Zhang et al., arXiv:1710.09412).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/numbers/philox.h"
#include "train/data/dataset.h"

namespace tessera::train {

// The fields with y_mixed (like y) and mix (f32 []) behind them. Throws Error(invalid_argument) unless there are fields
// x f32 and y.
std::vector<Field> mixed_fields(std::vector<Field> fields);

// Sample i of x becomes λ_i x_i + (1 − λ_i) x_j, with λ_i = max(λ, 1 − λ) for λ drawn from Beta(alpha, alpha) and j
// from a permutation of the batch; fills y_mixed_i = y_j and mix_i = λ_i. `fields` are those of mixed_fields.
void mix_batch(std::map<std::string, Tensor>& batch, const std::vector<Field>& fields, double alpha,
               base::Philox& numbers);

// A number drawn from the gamma distribution of this shape and scale 1 (Marsaglia, Tsang, "A simple method for
// generating gamma variables", 2000).
double next_gamma(double shape, base::Philox& numbers);

}  // namespace tessera::train
