// Adds the update of a training step: the optimiser's nodes and variables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/gradient.h"
#include "tessera/train.h"

namespace tessera::train {

// The gradient of only those rows of a table that were looked up, as tessera::SumRows gives it. The gradient of all
// other rows is zero, and is not stored.
struct RowGradient {
  ir::ValueId sums, places;
};

// The parameters that a step trains, one entry per parameter.
struct TrainedParameters {
  std::vector<std::string> names;
  std::vector<ir::ValueId> values, gradients;  // variables; gradients, or the sums of their rows
  std::vector<std::optional<RowGradient>> rows;
};

// A tensor of zeros.
Tensor zero_tensor(DType type, const Shape& shape);

// Finds gradients that come from a single look-up, if the optimiser can update rows separately.
void find_row_gradients(ops::GraphBuilder& builder, const OptimiserOptions& options, TrainedParameters& trained);

// Adds the step of all parameters from the scalars rate, count, gradient_scale and apply
// (ops/training/optimiser_step.h) and sets the updates of the variables. Returns the new parameters.
std::vector<ir::ValueId> add_optimiser(ops::GraphBuilder& builder, const OptimiserOptions& options,
                                       const TrainedParameters& trained, const std::vector<ir::ValueId>& scalars);

}  // namespace tessera::train
