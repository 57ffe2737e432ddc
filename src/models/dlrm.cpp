// Deep learning recommendation model (Naumov et al., arXiv:1906.00091): embeddings of categories and a bottom network
// over dense features, all pairwise products, a top network.
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

constexpr std::int64_t kTables = 26, kRows = 10000, kWidth = 64, kDense = 13;

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

}  // namespace

ir::Graph build_dlrm(const ModelOptions& options) {
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const ir::Dim batch = layers.dim("batch");
  const ValueId dense = layers.input("dense", DType::f32, {batch, kDense});
  const ValueId categories = layers.input("categories", DType::i64, {batch, kTables});
  layers.scope("bottom");
  const ValueId bottom = perceptron(layers, dense, {kDense, 512, 256, kWidth}, true);
  layers.scope("embeddings");
  std::vector<ValueId> vectors{layers.reshape(bottom, {0, 1, kWidth})};
  for (std::int64_t i = 0; i < kTables; ++i) {
    const ValueId column =
        layers.ops().add("Gather", {categories, layers.ops().integers({i})}, {{"axis", std::int64_t{1}}});
    vectors.push_back(layers.embedding("table" + std::to_string(i), column, kRows, kWidth));  // [batch, 1, width]
  }
  layers.scope("interaction");
  const auto count = static_cast<std::int64_t>(vectors.size());
  const ValueId pairs = interact(layers, layers.concat(vectors, 1), count);
  const ValueId features = layers.concat({bottom, pairs}, 1);
  layers.scope("top");
  layers.output("probability",
                layers.sigmoid(perceptron(layers, features, {kWidth + count * (count - 1) / 2, 512, 256, 1}, false)));
  return graph;
}

}  // namespace tessera::models
