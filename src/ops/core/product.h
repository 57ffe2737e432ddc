// The sizes of the matrix products that operators are: functions for OpDef::product.
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
  // For a convolution: the channels of one group, by which its operands are aligned; else 0.
  std::int64_t input_channels = 0, output_channels = 0;
  // Whether n and k are dimensions of weights, which padding the model's weights can change.
  bool fixed_n = false, fixed_k = false;

  double operations() const {
    return 2.0 * static_cast<double>(count) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// Always nothing: for operators that consist of products of different sizes (attention, recurrent nets).
std::optional<Product> several_products(const ir::Graph& graph, const NodeView& view);

// A [..., m, k] × B [..., k, n] with numpy's broadcasting, where B is input `b_input`.
template <std::size_t b_input>
std::optional<Product> matrix_product_by(const ir::Graph& graph, const NodeView& view);
// Gemm: A [m, k] or its transpose (transA) × B.
std::optional<Product> gemm_product(const ir::Graph& graph, const NodeView& view);
// X [..., k] × W [k, n] or its transpose.
std::optional<Product> linear_product(const ir::Graph& graph, const NodeView& view);
// FusedMatMul: as MatMul, with A optionally transposed (transA).
std::optional<Product> fused_matmul_product(const ir::Graph& graph, const NodeView& view);
// MatMulNBits: A [..., K] × weights of the attributes K and N.
std::optional<Product> n_bits_product(const ir::Graph& graph, const NodeView& view);
// Convolution with weights [outputs, inputs of a group, kernel...] in input `weights`; `transposed`: [inputs, outputs
// of a group, kernel...], where each input position meets the whole kernel. Nothing for a convolution with one channel
// per group, which vector units compute.
template <std::size_t weights, bool transposed = false>
std::optional<Product> convolution_product(const ir::Graph& graph, const NodeView& view);
// The weight gradient [outputs, inputs of a group, kernel...] of a convolution from X and G: a sum over positions.
template <bool channels_last>
std::optional<Product> weight_gradient_product(const ir::Graph& graph, const NodeView& view);

}  // namespace tessera::ops
