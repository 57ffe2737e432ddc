// Second moments of the inputs that a layer's weights are multiplied by.
#pragma once

#include <functional>
#include <vector>

#include "compress/quantise/calibration.h"

namespace tessera::compress {

// The inputs of one output of a layer, in the order of the weights of one row. For a product they are the k numbers of
// a row of its data, for a convolution the window of each channel of the group.
struct LayerInputs {
  std::int64_t groups = 1, inputs = 0;  // inputs of each group
};
LayerInputs inputs_of(const ir::Graph& graph, const QuantisableLayer& layer);

// Some rows of the layer's inputs, f32 [groups, rows, inputs]. If there are more than `rows`, they are spread over the
// data by a random choice that `seed` determines; if there are fewer, the rest are zeros. `data` is the layer's data.
Tensor input_rows(const ir::Graph& graph, const QuantisableLayer& layer, const Tensor& data, std::int64_t rows,
                  std::uint64_t seed);

// The sums of x xᵀ, f32 [groups, inputs, inputs], over rows x of the inputs of some layers (no tables). Makes one pass
// over at most `most_samples` samples of the data and takes at most 512 rows of each batch. Returns one list per layer:
// the inputs are divided into slices of at most `slice`, each with a tensor of its own. Throws Error as observe does.
std::vector<std::vector<Tensor>> input_moments(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                               std::int64_t slice, const CalibrationData& data,
                                               std::int64_t most_samples, const SessionOptions& session,
                                               const std::function<void(std::int64_t samples)>& progress);

}  // namespace tessera::compress
