// Mixed precision: products in bfloat16 or float16, everything else in float32.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// Rounds the float32 operands and results of convolutions and products (Conv, ConvTranspose, MatMul, Gemm, Einsum) to
// `type`, bf16 or f16, by two casts each. Sums within a product, and all other operators, stay in float32; parameters
// stay float32 as master weights (Micikevicius et al., arXiv:1710.03740). Gradients flow back through the casts, so
// that the products of the backward pass have rounded operands too. Types must have been inferred before, and are
// inferred afterwards.
void round_products(ir::Graph& graph, DType type);

}  // namespace tessera::train
