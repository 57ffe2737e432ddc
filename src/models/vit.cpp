// Vision transformer B/16 (Dosovitskiy et al., arXiv:2010.11929), as torchvision has it.
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {

ir::Graph build_vit_b_16(const BuildOptions& options) {
  constexpr std::int64_t kWidth = 768, kPatches = 14 * 14;
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const ValueId image = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  layers.scope("embeddings");
  const ValueId patches = layers.conv("patch", image, 3, kWidth, {.kernel = {16, 16}, .stride = 16});
  const ValueId tokens = layers.transpose(layers.reshape(patches, {0, kWidth, kPatches}), {0, 2, 1});
  // The class token, once a sample: [1, 1, width] expanded to [batch, 1, width].
  ops::GraphBuilder& ops = layers.ops();
  const ValueId batch = ops.add("Shape", {image}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  const ValueId class_shape = layers.concat({batch, ops.integers({1, kWidth})}, 0);
  const ValueId class_token = ops.add("Expand", {layers.weight("class_token", {1, 1, kWidth}, 0.5), class_shape});
  ValueId x =
      layers.add(layers.concat({class_token, tokens}, 1), layers.weight("position", {1, kPatches + 1, kWidth}, 0.5));
  for (int i = 0; i < 12; ++i) {
    layers.scope("layer" + std::to_string(i) + "/attention");
    x = layers.add(x, layers.attention(layers.layer_norm("norm", x, kWidth), kWidth, 12));
    layers.scope("layer" + std::to_string(i) + "/mlp");
    const ValueId wide = layers.gelu(layers.linear("up", layers.layer_norm("norm", x, kWidth), kWidth, 4 * kWidth));
    x = layers.add(x, layers.linear("down", wide, 4 * kWidth, kWidth));
  }
  layers.scope("head");
  const ValueId first =
      ops.add("Gather", {layers.layer_norm("norm", x, kWidth), ops.scalar(0, DType::i64)}, {{"axis", std::int64_t{1}}});
  layers.output("output", layers.gemm("dense", first, kWidth, 1000));
  return graph;
}

}  // namespace tessera::models
