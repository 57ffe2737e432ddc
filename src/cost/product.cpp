#include "cost/product.h"

#include <algorithm>

namespace tessera::cost {
namespace {

std::int64_t elements_of(const Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

bool is_weight(const ir::Graph& graph, const ir::Node& node, std::size_t input) {
  const ir::ValueId id = node.inputs[input];
  return id.valid() && graph.value(id).origin != ir::Origin::node && graph.value(id).origin != ir::Origin::input;
}

// a [..., m, k] x b [..., k, n] as numpy multiplies them, `b` being that input.
template <std::size_t b_input>
std::optional<Product> matrix_product(const ir::Graph& graph, const ops::NodeView& view) {
  const Shape &a = view.input(0).shape, &b = view.input(b_input).shape, &y = view.output(0).shape;
  if (a.empty() || b.empty() || y.empty()) return std::nullopt;
  Product product;
  product.k = a.back();
  product.n = b.size() == 1 ? 1 : b.back();
  // Rows of all matrices of A meet the same B.
  if (b.size() <= 2) {
    product.m = elements_of(a, 0, a.size() - 1);
  } else {
    product.m = a.size() == 1 ? 1 : a[a.size() - 2];
    product.count = product.m * product.n > 0 ? element_count(y) / (product.m * product.n) : 0;
  }
  product.fixed_n = product.fixed_k = is_weight(graph, view.node(), b_input);
  return product;
}

std::optional<Product> gemm(const ir::Graph& graph, const ops::NodeView& view) {
  const Shape &a = view.input(0).shape, &y = view.output(0).shape;
  if (a.size() != 2 || y.size() != 2) return std::nullopt;
  const bool weights = is_weight(graph, view.node(), 1);
  return Product{
      .m = y[0], .n = y[1], .k = view.integer("transA") != 0 ? a[0] : a[1], .fixed_n = weights, .fixed_k = weights};
}

std::optional<Product> linear(const ir::Graph& graph, const ops::NodeView& view) {
  const Shape &w = view.input(1).shape, &y = view.output(0).shape;
  if (y.empty() || y.back() == 0) return std::nullopt;
  const bool fixed = is_weight(graph, view.node(), 1);
  return Product{.m = elements_of(y, 0, y.size() - 1),
                 .n = y.back(),
                 .k = element_count(w) / y.back(),
                 .fixed_n = fixed,
                 .fixed_k = fixed};
}

std::optional<Product> fused_matmul(const ir::Graph& graph, const ops::NodeView& view) {
  const Shape &a = view.input(0).shape, &y = view.output(0).shape;
  if (a.size() < 2 || y.size() < 2) return std::nullopt;
  Product product{
      .m = y[y.size() - 2], .n = y.back(), .k = a[view.integer("transA") != 0 ? a.size() - 2 : a.size() - 1]};
  product.count = product.m * product.n > 0 ? element_count(y) / (product.m * product.n) : 0;
  product.fixed_n = product.fixed_k = is_weight(graph, view.node(), 1);
  return product;
}

std::optional<Product> n_bits(const ir::Graph&, const ops::NodeView& view) {
  const Shape& a = view.input(0).shape;
  if (a.empty()) return std::nullopt;
  return Product{.m = elements_of(a, 0, a.size() - 1),
                 .n = view.integer("N"),
                 .k = view.integer("K"),
                 .fixed_n = true,
                 .fixed_k = true};
}

// Weights [outputs, inputs of a group, kernel...]; `transposed`: [inputs, outputs of a group, kernel...], where each
// input position meets all of the kernel.
template <std::size_t weights, bool transposed = false>
std::optional<Product> convolution(const ir::Graph& graph, const ops::NodeView& view) {
  const Shape& w = view.input(weights).shape;
  const std::int64_t group = view.integer("group");
  if (w.size() < 3 || group <= 0 || w[0] == 0 || w[1] == 0) return std::nullopt;
  const std::int64_t taps = elements_of(w, 2, w.size());
  const bool fixed = is_weight(graph, view.node(), weights);
  Product product{.count = group, .fixed_n = fixed, .fixed_k = fixed};
  if (transposed) {
    product.input_channels = w[0] / group;
    product.output_channels = w[1];
    product.k = product.input_channels;
    product.n = w[1] * taps;
    product.m = view.input(0).elements() / w[0];
  } else {
    product.input_channels = w[1];
    product.output_channels = w[0] / group;
    product.k = w[1] * taps;
    product.n = product.output_channels;
    product.m = view.output(0).elements() / w[0];
  }
  if (product.input_channels == 1 && group > 1) return std::nullopt;  // a channel at a time: no product
  return product;
}

// X and G of a convolution's weight gradient [outputs, inputs of a group, kernel...]: a sum over positions.
template <bool channels_last>
std::optional<Product> weight_gradient(const ir::Graph&, const ops::NodeView& view) {
  const Shape &g = view.input(1).shape, &w = view.output(0).shape;
  const std::int64_t group = view.integer("group");
  if (w.size() < 3 || g.size() < 3 || group <= 0 || w[0] == 0 || w[1] == 0) return std::nullopt;
  if (w[1] == 1 && group > 1) return std::nullopt;  // a channel at a time: no product
  const std::int64_t positions = channels_last ? elements_of(g, 1, g.size() - 1) : elements_of(g, 2, g.size());
  return Product{.m = elements_of(w, 1, w.size()),
                 .n = w[0] / group,
                 .k = g[0] * positions,
                 .count = group,
                 .input_channels = w[1],
                 .output_channels = w[0] / group};
}

struct Entry {
  std::string_view op;
  std::optional<Product> (*product)(const ir::Graph&, const ops::NodeView&);  // null: products of several sizes
};

constexpr Entry kProducts[] = {
    {"MatMul", matrix_product<1>},
    {"MatMulInteger", matrix_product<1>},
    {"QLinearMatMul", matrix_product<3>},
    {"tessera::Linear", linear},
    {"tessera::QuantisedLinear", linear},
    {"Gemm", gemm},
    {"com.microsoft::FusedGemm", gemm},
    {"com.microsoft::FusedMatMul", fused_matmul},
    {"tessera::TransposedMatMul", fused_matmul},
    {"com.microsoft::MatMulNBits", n_bits},
    {"com.microsoft::MatMulIntegerToFloat", matrix_product<1>},
    {"com.microsoft::DynamicQuantizeMatMul", matrix_product<1>},
    {"com.microsoft::MatMulInteger16", matrix_product<1>},
    {"com.microsoft::QGemm", nullptr},
    {"Conv", convolution<1>},
    {"ConvInteger", convolution<1>},
    {"QLinearConv", convolution<3>},
    {"com.microsoft::FusedConv", convolution<1>},
    {"tessera::ChannelsLastConv", convolution<1>},
    {"tessera::ConvChain", nullptr},
    {"tessera::DictionaryConv", nullptr},
    {"tessera::QuantisedConv", convolution<1>},
    {"ConvTranspose", convolution<1, true>},
    {"tessera::ChannelsLastConvTranspose", convolution<1, true>},
    {"tessera::ConvWeightGradient", weight_gradient<false>},
    {"tessera::ChannelsLastConvWeightGradient", weight_gradient<true>},
    {"DeformConv", nullptr},
    {"Einsum", nullptr},
    {"RNN", nullptr},
    {"GRU", nullptr},
    {"LSTM", nullptr},
    {"tessera::RNNGradient", nullptr},
    {"tessera::GRUWithGates", nullptr},
    {"tessera::GRUGradient", nullptr},
    {"tessera::LSTMWithGates", nullptr},
    {"tessera::LSTMGradient", nullptr},
    {"com.microsoft::DynamicQuantizeLSTM", nullptr},
    {"Attention", nullptr},
    {"tessera::AttentionWithStatistics", nullptr},
    {"tessera::AttentionWithDropout", nullptr},
    {"tessera::AttentionGradient", nullptr},
    {"LinearAttention", nullptr},
    {"ai.onnx.preview::FlexAttention", nullptr},
    {"com.microsoft::Attention", nullptr},
    {"com.microsoft::QAttention", nullptr},
    {"com.microsoft::MultiHeadAttention", nullptr},
    {"com.microsoft::DecoderMaskedMultiHeadAttention", nullptr},
    {"com.microsoft::GroupQueryAttention", nullptr},
};

const Entry* find_entry(std::string_view op) {
  const Entry* entry = std::ranges::find(kProducts, op, &Entry::op);
  return entry == std::end(kProducts) ? nullptr : entry;
}

}  // namespace

bool is_product(std::string_view op) {
  return find_entry(op) != nullptr;
}

std::optional<Product> product_of(const ir::Graph& graph, const ops::NodeView& view) {
  const Entry* entry = find_entry(view.node().op);
  return entry != nullptr && entry->product != nullptr ? entry->product(graph, view) : std::nullopt;
}

}  // namespace tessera::cost
