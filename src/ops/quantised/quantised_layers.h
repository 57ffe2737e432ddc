// Convolution and product of 8-bit data with 8-bit weights, computed in integers. Not ONNX:
// passes/precision/lower_quantised.cpp makes them from the operators between DequantizeLinear and QuantizeLinear, and
// they decompose into those.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef quantised_conv;    // "tessera::QuantisedConv"
extern const OpDef quantised_linear;  // "tessera::QuantisedLinear"

// The positions of operands in the inputs of both operators.
struct QuantisedLayerInputs {
  static constexpr std::size_t data = 0, weights = 1, bias = 2, data_scale = 3, data_zero = 4, weights_scale = 5,
                               result_scale = 6, result_zero = 7;
  // The optional tensor that is added to the result, and the quantisation of that tensor and of the sum.
  static constexpr std::size_t addend = 8, addend_scale = 9, addend_zero = 10, sum_scale = 11, sum_zero = 12;
  static constexpr std::size_t weights_zero = 13;
};

}  // namespace tessera::ops
