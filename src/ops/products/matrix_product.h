// Matrix products: MatMul, Gemm, and their integer and quantised forms.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef matmul, gemm, matmul_integer, qlinear_matmul;

// alpha, beta, transA, transB.
std::vector<AttributeSpec> gemm_attributes();

// Dimensions of A·B under numpy's matmul rules: batch dimensions broadcast, a rank-1 operand is a row (A) or column (B)
// whose dimension of 1 is dropped from the result. Throws Error(invalid_model) when the inner dimensions differ.
ir::Dims matmul_dims(const InferContext& context, ir::Dims a, ir::Dims b);

}  // namespace tessera::ops
