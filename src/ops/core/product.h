// The matrix products that operators are: values of OpDef::product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/core/op.h"

namespace tessera::ops {

// `count` products [m, k] x [k, n]. A convolution is one with m = batch and positions, k = input channels of a group
// and kernel, n = output channels of a group (implicit GEMM).
struct Product {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  // Of a convolution: the channels of a group, by which its operands are aligned; else 0.
  std::int64_t input_channels = 0, output_channels = 0;
  // Whether m, n and k belong to what weights fix: dimensions that padding the model's weights can change.
  bool fixed_n = false, fixed_k = false;

  double operations() const {
    return 2.0 * static_cast<double>(count) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// Of operators that are several products of unlike sizes (attention, recurrent nets): nothing.
std::optional<Product> several_products(const ir::Graph& graph, const NodeView& view);

// A [..., m, k] × B [..., k, n] as numpy multiplies them, B being that input.
template <std::size_t b_input>
std::optional<Product> matrix_product_by(const ir::Graph& graph, const NodeView& view);
// Gemm: A [m, k] or its transpose (transA) × B.
std::optional<Product> gemm_product(const ir::Graph& graph, const NodeView& view);
// X [..., k] × W [k, n] or its transpose.
std::optional<Product> linear_product(const ir::Graph& graph, const NodeView& view);
// FusedMatMul: as MatMul, with A maybe transposed (transA).
std::optional<Product> fused_matmul_product(const ir::Graph& graph, const NodeView& view);
// MatMulNBits: A [..., K] × weights of the attributes K and N.
std::optional<Product> n_bits_product(const ir::Graph& graph, const NodeView& view);
// Weights [outputs, inputs of a group, kernel...] in that input; `transposed`: [inputs, outputs of a group,
// kernel...], where each input position meets all of the kernel. Nothing for a convolution with one channel for each
// group, which is computed by vector units.
template <std::size_t weights, bool transposed = false>
std::optional<Product> convolution_product(const ir::Graph& graph, const NodeView& view);
// X and G of a convolution's weight gradient [outputs, inputs of a group, kernel...]: a sum over positions.
template <bool channels_last>
std::optional<Product> weight_gradient_product(const ir::Graph& graph, const NodeView& view);

}  // namespace tessera::ops
