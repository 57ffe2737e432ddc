// Cross-layer equalisation: channel c of an activation is divided by s[c] in the weights that make it and multiplied by
// it in those that read it, so that all channels use the range of the tensor (M. Nagel et al., arXiv:1906.04721,
// section 4.1; the split between activations and weights as in G. Xiao et al., arXiv:2211.10438, with exponent 1/2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compress/quantise/calibration.h"

namespace tessera::compress {

enum class EqualiseScope : std::uint8_t {
  layers,      // activations between two layers only; costs nothing in a run
  normalised,  // also all others that only products with a matrix multiply, as in transformers
};

// The equal graph with other weights, the handles being the same; nothing where no activation allows it.
//
// Between layers: a convolution, a Gemm or a MatMul with a constant bias makes the activation, with at most a Relu
// behind, and nothing but quantisable layers reads it. Biases are scaled with their weights.
//
// Normalised: the factors go into the scale and shift of the LayerNormalization, RMSNormalization or multiplication
// with a vector that makes the activation, if nothing but products reads it; else a multiplication is put in front of
// the products, and all others read what it reads.
std::optional<ir::Graph> equalise_channels(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::map<ir::ValueId, ChannelStatistics>& channels,
                                           EqualiseScope scope = EqualiseScope::layers);

}  // namespace tessera::compress
