// Matrix products of domain com.microsoft over 8- and 16-bit integers: exact sums, then one multiplication by the
// scales.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef q_gemm, matmul_integer_to_float, dynamic_quantize_matmul, matmul_integer_16;

}  // namespace tessera::ops
