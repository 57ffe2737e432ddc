// Deep learning recommendation model (Naumov et al., arXiv:1906.00091): embeddings of categories and a bottom network
// over dense features, all pairwise products, a top network.
#include "base/error.h"
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

struct Sizes {
  std::int64_t tables, rows, width, dense, hidden;
};

ValueId perceptron(LayerBuilder& layers, ValueId x, const std::vector<std::int64_t>& widths, bool relu_at_end) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    x = layers.gemm("dense" + std::to_string(i), x, widths[i], widths[i + 1]);
    if (i + 2 < widths.size() || relu_at_end) x = layers.relu(x);
  }
  return x;
}

// Products of all pairs of different vectors in [batch, n, width] → [batch, n·(n − 1)/2].
ValueId interact(LayerBuilder& layers, ValueId vectors, std::int64_t count) {
  const ValueId products = layers.ops().add("MatMul", {vectors, layers.transpose(vectors, {0, 2, 1})});
  std::vector<std::int64_t> below_diagonal;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < i; ++j) below_diagonal.push_back(i * count + j);
  }
  return layers.ops().add(
      "Gather", {layers.reshape(products, {0, count * count}), layers.ops().integers(std::move(below_diagonal))},
      {{"axis", std::int64_t{1}}});
}

// The scores [batch, 1] before the sigmoid.
ValueId scores(LayerBuilder& layers, const Sizes& sizes) {
  const ir::Dim batch = layers.dim("batch");
  const ValueId dense = layers.input("dense", DType::f32, {batch, sizes.dense});
  const ValueId categories = layers.input("categories", DType::i64, {batch, sizes.tables});
  layers.scope("bottom");
  const ValueId bottom = perceptron(layers, dense, {sizes.dense, sizes.hidden, sizes.hidden / 2, sizes.width}, true);
  layers.scope("embeddings");
  std::vector<ValueId> vectors{layers.reshape(bottom, {0, 1, sizes.width})};
  for (std::int64_t i = 0; i < sizes.tables; ++i) {
    const ValueId column =
        layers.ops().add("Gather", {categories, layers.ops().integers({i})}, {{"axis", std::int64_t{1}}});
    vectors.push_back(
        layers.embedding("table" + std::to_string(i), column, sizes.rows, sizes.width));  // [batch, 1, width]
  }
  layers.scope("interaction");
  const auto count = static_cast<std::int64_t>(vectors.size());
  const ValueId pairs = interact(layers, layers.concat(vectors, 1), count);
  const ValueId features = layers.concat({bottom, pairs}, 1);
  layers.scope("top");
  return perceptron(layers, features, {sizes.width + count * (count - 1) / 2, sizes.hidden, sizes.hidden / 2, 1},
                    false);
}

}  // namespace

ir::Graph build_dlrm(const BuildOptions& options) {
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const ValueId x = scores(layers, {.tables = 26, .rows = 10000, .width = 64, .dense = 13, .hidden = 512});
  layers.output("probability", layers.sigmoid(x));
  return graph;
}

ir::Graph build_dlrm_small(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "dlrm_small";
  LayerBuilder layers(graph, options);
  const Sizes sizes{layers.size("tables", 8), layers.size("rows", 100), layers.size("width", 8),
                    layers.size("dense", 4), layers.size("hidden", 64)};
  require(sizes.hidden > 1, ErrorKind::invalid_argument, "dlrm_small: hidden is {}, expected at least 2", sizes.hidden);
  layers.output("output", scores(layers, sizes));
  return graph;
}

}  // namespace tessera::models
