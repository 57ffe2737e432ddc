// Cross-layer equalisation: channel c of an activation is divided by s[c] in the weights that make it and multiplied by
// s[c] in the weights that read it, so that all channels use the whole range of the tensor (M. Nagel et al.,
// arXiv:1906.04721, section 4.1; the split between activations and weights as in G. Xiao et al., arXiv:2211.10438, with
// exponent 1/2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compress/quantise/calibration.h"

namespace tessera::compress {

enum class EqualiseScope : std::uint8_t {
  layers,      // activations between two layers only, which costs nothing in a run
  normalised,  // also all other activations that products with a matrix read, as in transformers
};

// An equivalent graph with other weights but the same handles; nothing if no activation can be equalised.
//
// Between layers, an activation can be equalised if a convolution, a Gemm or a MatMul with a constant bias makes it,
// with at most a Relu behind, and only quantisable layers read it. Biases are scaled with their weights.
//
// With `normalised`, the factors go into the scale and shift of the LayerNormalization, RMSNormalization or
// multiplication with a vector that makes the activation, if only products read it. Otherwise a multiplication is
// inserted in front of the products, and other readers keep the original value.
std::optional<ir::Graph> equalise_channels(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::map<ir::ValueId, ChannelStatistics>& channels,
                                           EqualiseScope scope = EqualiseScope::layers);

}  // namespace tessera::compress
