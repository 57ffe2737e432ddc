// The update of a training step: the optimiser's nodes and variables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/gradient.h"
#include "tessera/train.h"

namespace tessera::train {

// The gradient of those rows of a table that were looked up, as tessera::SumRows gives it. Elsewhere the gradient is
// zero, and never stored.
struct RowGradient {
  ir::ValueId sums, places;
};

// The parameters that a step trains, one by one.
struct TrainedParameters {
  std::vector<std::string> names;
  std::vector<ir::ValueId> values, gradients;  // variables; gradients, or the sums of their rows
  std::vector<std::optional<RowGradient>> rows;
};

// Zeros of that shape.
Tensor zero_tensor(DType type, const Shape& shape);

// Finds gradients that are those of one look-up, where the optimiser can take rows apart.
void find_row_gradients(ops::GraphBuilder& builder, const OptimiserOptions& options, TrainedParameters& trained);

// The step of all parameters from the scalars rate, count, gradient_scale and apply (ops/training/optimiser_step.h).
// Variables get their updates. Returns the new parameters.
std::vector<ir::ValueId> add_optimiser(ops::GraphBuilder& builder, const OptimiserOptions& options,
                                       const TrainedParameters& trained, const std::vector<ir::ValueId>& scalars);

}  // namespace tessera::train
