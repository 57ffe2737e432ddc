// Cross-layer equalisation: channel c of an activation is divided by s[c] in the weights that make it and multiplied by
// it in those that read it, so that all channels use the range of the tensor (M. Nagel et al., arXiv:1906.04721,
// section 4.1; the split between activations and weights as in G. Xiao et al., arXiv:2211.10438, with exponent 1/2).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compress/calibration.h"

namespace tessera::compress {

// The equal graph with other weights, the handles being the same; nothing where no activation allows it. An activation
// does if a convolution, a Gemm or a MatMul with a constant bias makes it, with at most a Relu behind, and if nothing
// but quantisable layers reads it. Biases are scaled with their weights.
std::optional<ir::Graph> equalise_channels(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::map<ir::ValueId, ChannelStatistics>& channels);

}  // namespace tessera::compress
