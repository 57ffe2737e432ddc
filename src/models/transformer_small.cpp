// Small transformer encoders with the normalisation before each block (Xiong et al., arXiv:2002.04745), which train
// without a warm-up: a classifier of token sequences and a model of masked tokens.
#include "base/error.h"
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

struct Encoder {
  std::int64_t vocabulary, length, width, heads, layers;
};

Encoder encoder_sizes(const LayerBuilder& layers, std::int64_t vocabulary) {
  const Encoder sizes{layers.size("vocabulary", vocabulary), layers.size("seq", 64), layers.size("width", 64),
                      layers.size("heads", 4), layers.size("layers", 2)};
  require(sizes.width % sizes.heads == 0, ErrorKind::invalid_argument, "width {} cannot be divided among {} heads",
          sizes.width, sizes.heads);
  return sizes;
}

// Token numbers "tokens" i64 [batch, seq] → normalised states [batch, seq, width].
ValueId encode(LayerBuilder& layers, const Encoder& sizes) {
  constexpr double kDeviation = 0.1;
  const ValueId tokens = layers.input("tokens", DType::i64, {layers.dim("batch"), sizes.length});
  layers.scope("embeddings");
  const ValueId table = layers.weight("token.weight", {sizes.vocabulary, sizes.width}, kDeviation);
  const ValueId positions = layers.weight("position.weight", {sizes.length, sizes.width}, kDeviation);
  ValueId x = layers.add(layers.ops().add("Gather", {table, tokens}), positions);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const std::string prefix = "layer" + std::to_string(i);
    layers.scope(prefix + "/attention");
    x = layers.add(x, layers.attention(layers.layer_norm("norm", x, sizes.width), sizes.width, sizes.heads));
    layers.scope(prefix + "/feed_forward");
    const ValueId wide =
        layers.gelu(layers.linear("up", layers.layer_norm("norm", x, sizes.width), sizes.width, 4 * sizes.width));
    x = layers.add(x, layers.linear("down", wide, 4 * sizes.width, sizes.width));
  }
  layers.scope("head");
  return layers.layer_norm("norm", x, sizes.width);
}

}  // namespace

ir::Graph build_transformer_small(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "transformer_small";
  LayerBuilder layers(graph, options);
  const Encoder sizes = encoder_sizes(layers, 128);
  const ValueId states = encode(layers, sizes);
  const ValueId mean =
      layers.ops().add("ReduceMean", {states, layers.ops().integers({1})}, {{"keepdims", std::int64_t{0}}});
  layers.output("output", layers.gemm("classifier", mean, sizes.width, layers.size("classes", 10)));
  return graph;
}

ir::Graph build_masked_lm(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "masked_lm";
  LayerBuilder layers(graph, options);
  const Encoder sizes = encoder_sizes(layers, 128);
  const ValueId states = encode(layers, sizes);
  layers.output("output", layers.linear("decoder", states, sizes.width, sizes.vocabulary));
  return graph;
}

}  // namespace tessera::models
