#include <array>

#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

// The last normalisation of a branch; without it the sum grows with depth.
constexpr double kBranchScale = 0.3;

ValueId shortcut(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return x;
  return conv_norm(layers, "downsample", x, in, out, {.kernel = 1, .stride = stride, .activation = Activation::none});
}

ValueId basic_block(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t width, std::int64_t stride) {
  ValueId y = conv_norm(layers, "1", x, in, width, {.stride = stride});
  y = conv_norm(layers, "2", y, width, width, {.activation = Activation::none, .scale = kBranchScale});
  return layers.relu(layers.add(y, shortcut(layers, x, in, width, stride)));
}

// The stride is at the 3x3 convolution, as in torchvision (in the paper it is at the first).
ValueId bottleneck(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t width, std::int64_t stride) {
  const std::int64_t out = 4 * width;
  ValueId y = conv_norm(layers, "1", x, in, width, {.kernel = 1});
  y = conv_norm(layers, "2", y, width, width, {.stride = stride});
  y = conv_norm(layers, "3", y, width, out, {.kernel = 1, .activation = Activation::none, .scale = kBranchScale});
  return layers.relu(layers.add(y, shortcut(layers, x, in, out, stride)));
}

struct Design {
  const char* name;
  std::array<std::int64_t, 4> blocks;
  std::int64_t expansion;  // output channels of a block over its width
  ValueId (*block)(LayerBuilder&, ValueId, std::int64_t in, std::int64_t width, std::int64_t stride);
};

ir::Graph build(const Design& design, const ModelOptions& options) {
  ir::Graph graph;
  graph.name = design.name;
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  x = conv_norm(layers, "stem", x, 3, 64, {.kernel = 7, .stride = 2});
  x = layers.max_pool(x, {3, 3}, 2, 1);
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < design.blocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (std::int64_t i = 0; i < design.blocks[stage]; ++i) {
      layers.scope("layer" + std::to_string(stage + 1) + "/" + std::to_string(i));
      x = design.block(layers, x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = width * design.expansion;
    }
  }
  layers.scope("");
  layers.output("output", layers.gemm("fc", global_average(layers, x), channels, 1000));
  return graph;
}

}  // namespace

ir::Graph build_resnet18(const ModelOptions& options) {
  return build({"resnet18", {2, 2, 2, 2}, 1, basic_block}, options);
}

ir::Graph build_resnet50(const ModelOptions& options) {
  return build({"resnet50", {3, 4, 6, 3}, 4, bottleneck}, options);
}

}  // namespace tessera::models
