// A decoder like GPT-2 small (Radford et al. 2019): pre-norm layers, causal mask, tanh GELU, tied output embedding, no
// cache.
#include <limits>

#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

constexpr std::int64_t kWidth = 768, kVocabulary = 50257, kPositions = 1024;

// [length, length]: 0 on and below the diagonal, the most negative float above it.
ValueId causal_mask(LayerBuilder& layers, ValueId length) {
  layers.scope("mask");
  ops::GraphBuilder& ops = layers.ops();
  const ValueId square = layers.concat({length, length}, 0);
  const Tensor lowest = Tensor::from<float>({1}, {std::numeric_limits<float>::lowest()});
  const ValueId full = ops.add("ConstantOfShape", {square}, {{"value", lowest}});
  return ops.add("Trilu", {full, ops.scalar(1, DType::i64)}, {{"upper", std::int64_t{1}}});
}

// 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
ValueId tanh_gelu(LayerBuilder& layers, ValueId x) {
  return layers.ops().add("Gelu", {x}, {{"approximate", std::string("tanh")}});
}

}  // namespace

ir::Graph build_gpt2(const BuildOptions& options) {
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  ops::GraphBuilder& ops = layers.ops();
  const ValueId ids = layers.input("input_ids", DType::i64, {layers.dim("batch"), layers.dim("seq", 64)});
  const ValueId length = ops.add("Shape", {ids}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
  const ValueId mask = causal_mask(layers, length);
  layers.scope("embeddings");
  const ValueId positions =
      ops.add("Range", {ops.scalar(0, DType::i64), ops.add("Squeeze", {length}), ops.scalar(1, DType::i64)});
  const ValueId table = layers.weight("word.weight", {kVocabulary, kWidth}, 0.2);
  ValueId x = layers.add(ops.add("Gather", {table, ids}), layers.embedding("position", positions, kPositions, kWidth));
  for (int i = 0; i < 12; ++i) {
    layers.scope("layer" + std::to_string(i) + "/attention");
    x = layers.add(x, layers.attention(layers.layer_norm("norm", x, kWidth), kWidth, 12, mask));
    layers.scope("layer" + std::to_string(i) + "/mlp");
    const ValueId wide =
        tanh_gelu(layers, layers.linear("up", layers.layer_norm("norm", x, kWidth), kWidth, 4 * kWidth));
    x = layers.add(x, layers.linear("down", wide, 4 * kWidth, kWidth));
  }
  layers.scope("head");
  const ValueId scaled = layers.multiply(layers.layer_norm("norm", x, kWidth), ops.scalar(0.18));  // logits around 1
  layers.output("logits", ops.add("MatMul", {scaled, layers.transpose(table, {1, 0})}));
  return graph;
}

}  // namespace tessera::models
