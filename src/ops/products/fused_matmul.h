// Matrix products fused with transposition, a factor or an activation: operators of com.microsoft, and one of Tessera.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef fused_matmul, fused_gemm;
extern const OpDef transposed_matmul;  // "tessera::TransposedMatMul": passes/layout/absorb_transposes.cpp makes it

}  // namespace tessera::ops
