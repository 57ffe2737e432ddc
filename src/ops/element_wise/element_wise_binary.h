// Arithmetic on tensors that broadcast against each other as in numpy ("Broadcasting in ONNX"), and Where.
// Comparisons and logic are in comparison.h.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef add, bit_shift, bitwise_and, bitwise_or, bitwise_xor, div, max, mean, min, mod, mul, p_relu, pow,
    sub, sum, where;

}  // namespace tessera::ops
