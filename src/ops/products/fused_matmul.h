// Matrix products with what fusion adds to them: transposition, a factor, an activation. Of domain com.microsoft, and
// one of ours.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef fused_matmul, fused_gemm;
extern const OpDef transposed_matmul;  // "tessera::TransposedMatMul": passes/layout/absorb_transposes.cpp makes it

}  // namespace tessera::ops
