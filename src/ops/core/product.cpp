#include "ops/core/product.h"

namespace tessera::ops {
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

}  // namespace

std::optional<Product> several_products(const ir::Graph&, const NodeView&) {
  return std::nullopt;
}

template <std::size_t b_input>
std::optional<Product> matrix_product_by(const ir::Graph& graph, const NodeView& view) {
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

std::optional<Product> gemm_product(const ir::Graph& graph, const NodeView& view) {
  const Shape &a = view.input(0).shape, &y = view.output(0).shape;
  if (a.size() != 2 || y.size() != 2) return std::nullopt;
  const bool weights = is_weight(graph, view.node(), 1);
  return Product{
      .m = y[0], .n = y[1], .k = view.integer("transA") != 0 ? a[0] : a[1], .fixed_n = weights, .fixed_k = weights};
}

std::optional<Product> linear_product(const ir::Graph& graph, const NodeView& view) {
  const Shape &w = view.input(1).shape, &y = view.output(0).shape;
  if (y.empty() || y.back() == 0) return std::nullopt;
  const bool fixed = is_weight(graph, view.node(), 1);
  return Product{.m = elements_of(y, 0, y.size() - 1),
                 .n = y.back(),
                 .k = element_count(w) / y.back(),
                 .fixed_n = fixed,
                 .fixed_k = fixed};
}

std::optional<Product> fused_matmul_product(const ir::Graph& graph, const NodeView& view) {
  const Shape &a = view.input(0).shape, &y = view.output(0).shape;
  if (a.size() < 2 || y.size() < 2) return std::nullopt;
  Product product{
      .m = y[y.size() - 2], .n = y.back(), .k = a[view.integer("transA") != 0 ? a.size() - 2 : a.size() - 1]};
  product.count = product.m * product.n > 0 ? element_count(y) / (product.m * product.n) : 0;
  product.fixed_n = product.fixed_k = is_weight(graph, view.node(), 1);
  return product;
}

std::optional<Product> n_bits_product(const ir::Graph&, const NodeView& view) {
  const Shape& a = view.input(0).shape;
  if (a.empty()) return std::nullopt;
  return Product{.m = elements_of(a, 0, a.size() - 1),
                 .n = view.integer("N"),
                 .k = view.integer("K"),
                 .fixed_n = true,
                 .fixed_k = true};
}

template <std::size_t weights, bool transposed>
std::optional<Product> convolution_product(const ir::Graph& graph, const NodeView& view) {
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

template <bool channels_last>
std::optional<Product> weight_gradient_product(const ir::Graph&, const NodeView& view) {
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

template std::optional<Product> matrix_product_by<1>(const ir::Graph&, const NodeView&);
template std::optional<Product> matrix_product_by<3>(const ir::Graph&, const NodeView&);
template std::optional<Product> convolution_product<1, false>(const ir::Graph&, const NodeView&);
template std::optional<Product> convolution_product<3, false>(const ir::Graph&, const NodeView&);
template std::optional<Product> convolution_product<1, true>(const ir::Graph&, const NodeView&);
template std::optional<Product> weight_gradient_product<false>(const ir::Graph&, const NodeView&);
template std::optional<Product> weight_gradient_product<true>(const ir::Graph&, const NodeView&);

}  // namespace tessera::ops
