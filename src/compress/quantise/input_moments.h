// Second moments of what a layer multiplies its weights by.
#pragma once

#include <functional>
#include <vector>

#include "compress/quantise/calibration.h"

namespace tessera::compress {

// The inputs of one output of a layer, in the order of its weights by row: of a product the k numbers of a row of its
// data, of a convolution the window of each channel of the group.
struct LayerInputs {
  std::int64_t groups = 1, inputs = 0;  // inputs of each group
};
LayerInputs inputs_of(const ir::Graph& graph, const QuantisableLayer& layer);

// Some rows of the layer's inputs, f32 [groups, rows, inputs]: all if there are no more, else `rows` of them spread
// over the data by a random choice that `seed` decides; rows beyond the last are zeros. `data`: of the layer.
Tensor input_rows(const ir::Graph& graph, const QuantisableLayer& layer, const Tensor& data, std::int64_t rows,
                  std::uint64_t seed);

// The sums of x xᵀ, f32 [groups, inputs, inputs], over rows of the inputs of some layers (no tables), in one pass over
// at most `most_samples` samples of the data: of each batch at most 512 rows. Inputs are divided into slices of at most
// `slice`, whose moments are separate tensors: one list for each layer. Throws Error as observe does.
std::vector<std::vector<Tensor>> input_moments(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                               std::int64_t slice, const CalibrationData& data,
                                               std::int64_t most_samples, const SessionOptions& session,
                                               const std::function<void(std::int64_t samples)>& progress);

}  // namespace tessera::compress
