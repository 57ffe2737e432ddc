// A convolution whose kernels are sparse combinations of the vectors of a small dictionary (Bagherinezhad, Rastegari
// and Farhadi, "LCNN: Lookup-based Convolutional Neural Network", CVPR 2017, arXiv:1611.06473). Not ONNX: it decomposes
// into two convolutions.
#pragma once

#include <cstdint>
#include <span>

#include "ops/core/op.h"

namespace tessera::ops {

// The kernel of output m at tap t is sum over s of W[m, s, t] * D[I[m, s, t], :], so that the result is the sum of a
// few responses of the dictionary, each scaled.
extern const OpDef dictionary_conv;  // "tessera::DictionaryConv"

// Its operands.
struct DictionaryConvInputs {
  static constexpr std::size_t data = 0, dictionary = 1, indices = 2, coefficients = 3, bias = 4, addend = 5;
};

// How many coefficients are not zero: those that a lookup multiplies by.
std::int64_t count_lookups(std::span<const float> coefficients);

}  // namespace tessera::ops
