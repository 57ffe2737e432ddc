// BERT encoders (Devlin et al., arXiv:1810.04805) as transformers exports them: post-norm layers, GELU by Erf, a
// pooler.
#include <cmath>
#include <limits>

#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

struct BertSizes {
  std::int64_t layers, width, heads;
  std::int64_t vocabulary = 30522, positions = 512;
};

// Token, position and segment embeddings, summed and normalised.
ValueId embed(LayerBuilder& layers, const BertSizes& sizes, ValueId ids, ValueId segments) {
  layers.scope("embeddings");
  // 0, 1, … length − 1 for whatever length the input has.
  ops::GraphBuilder& ops = layers.ops();
  const ValueId length =
      ops.add("Squeeze", {ops.add("Shape", {ids}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}})});
  const ValueId positions = ops.add("Range", {ops.scalar(0, DType::i64), length, ops.scalar(1, DType::i64)});
  const ValueId words = layers.embedding("word", ids, sizes.vocabulary, sizes.width);
  const ValueId places = layers.embedding("position", positions, sizes.positions, sizes.width);
  const ValueId kinds = layers.embedding("segment", segments, 2, sizes.width);
  return layers.layer_norm("norm", layers.add(layers.add(words, kinds), places), sizes.width);
}

// 0 where a token counts, the most negative float where it is padding: [batch, 1, 1, length].
ValueId attention_mask(LayerBuilder& layers, ValueId mask) {
  layers.scope("mask");
  ops::GraphBuilder& ops = layers.ops();
  const ValueId wide = ops.add("Cast", {ops.add("Unsqueeze", {mask, ops.integers({1, 2})})}, {{"to", std::int64_t{1}}});
  return layers.multiply(ops.add("Sub", {ops.scalar(1.0), wide}), ops.scalar(std::numeric_limits<float>::lowest()));
}

ir::Graph build_bert(const BuildOptions& options, const BertSizes& sizes) {
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const ir::Dims shape{layers.dim("batch"), layers.dim("seq")};
  const ValueId ids = layers.input("input_ids", DType::i64, shape);
  const ValueId mask = attention_mask(layers, layers.input("attention_mask", DType::i64, shape));
  ValueId x = embed(layers, sizes, ids, layers.input("token_type_ids", DType::i64, shape));
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const std::string prefix = "layer" + std::to_string(i);
    layers.scope(prefix + "/attention");
    x = layers.layer_norm("norm", layers.add(x, layers.attention(x, sizes.width, sizes.heads, mask)), sizes.width);
    layers.scope(prefix + "/feed_forward");
    const ValueId wide = layers.gelu(layers.linear("up", x, sizes.width, 4 * sizes.width));
    x = layers.layer_norm("norm", layers.add(x, layers.linear("down", wide, 4 * sizes.width, sizes.width)),
                          sizes.width);
  }
  layers.scope("pooler");
  const ValueId first =
      layers.ops().add("Gather", {x, layers.ops().scalar(0, DType::i64)}, {{"axis", std::int64_t{1}}});
  const ValueId pooled = layers.ops().add("Tanh", {layers.gemm("dense", first, sizes.width, sizes.width)});
  layers.output("last_hidden_state", x);
  layers.output("pooler_output", pooled);
  return graph;
}

}  // namespace

ir::Graph build_bert_base(const BuildOptions& options) {
  return build_bert(options, {12, 768, 12});
}
ir::Graph build_bert_mini(const BuildOptions& options) {
  return build_bert(options, {4, 256, 4});
}

}  // namespace tessera::models
