#include <vector>

#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

// The last normalisation of a branch; without it the sum grows with depth.
constexpr double kBranchScale = 0.3;

ValueId shortcut(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return x;
  return conv_norm(layers, "downsample", x, in, out,
                   {.kernel = 1, .stride = stride, .activation = BlockActivation::none});
}

ValueId basic_block(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t width, std::int64_t stride) {
  ValueId y = conv_norm(layers, "1", x, in, width, {.stride = stride});
  y = conv_norm(layers, "2", y, width, width, {.activation = BlockActivation::none, .scale = kBranchScale});
  return layers.relu(layers.add(y, shortcut(layers, x, in, width, stride)));
}

// The stride is at the 3x3 convolution, as in torchvision (in the paper it is at the first).
ValueId bottleneck(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t width, std::int64_t stride) {
  const std::int64_t out = 4 * width;
  ValueId y = conv_norm(layers, "1", x, in, width, {.kernel = 1});
  y = conv_norm(layers, "2", y, width, width, {.stride = stride});
  y = conv_norm(layers, "3", y, width, out, {.kernel = 1, .activation = BlockActivation::none, .scale = kBranchScale});
  return layers.relu(layers.add(y, shortcut(layers, x, in, out, stride)));
}

struct Design {
  const char* name;
  std::vector<std::int64_t> blocks;
  std::int64_t expansion;  // output channels of a block over its width
  ValueId (*block)(LayerBuilder&, ValueId, std::int64_t in, std::int64_t width, std::int64_t stride);
};

// The stages, each but the first with half the positions and twice the width of the one before, and a classifier of
// the mean over the positions. x has `width` channels.
ValueId stages(LayerBuilder& layers, ValueId x, const Design& design, std::int64_t width, std::int64_t classes) {
  std::int64_t channels = width;
  for (std::size_t stage = 0; stage < design.blocks.size(); ++stage, width *= 2) {
    for (std::int64_t i = 0; i < design.blocks[stage]; ++i) {
      layers.scope("layer" + std::to_string(stage + 1) + "/" + std::to_string(i));
      x = design.block(layers, x, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = width * design.expansion;
    }
  }
  layers.scope("");
  return layers.gemm("fc", global_average(layers, x), channels, classes);
}

ir::Graph build(const Design& design, const BuildOptions& options) {
  ir::Graph graph;
  graph.name = design.name;
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  x = conv_norm(layers, "stem", x, 3, 64, {.kernel = 7, .stride = 2});
  x = layers.max_pool(x, {3, 3}, 2, 1);
  layers.output("output", stages(layers, x, design, 64, 1000));
  return graph;
}

// For images of 32x32: the stem keeps their size.
ir::Graph build_for_cifar(const Design& design, std::int64_t width, const BuildOptions& options) {
  ir::Graph graph;
  graph.name = design.name;
  LayerBuilder layers(graph, options);
  width = layers.size("width", width);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 32, 32});
  x = conv_norm(layers, "stem", x, 3, width, {});
  layers.output("output", stages(layers, x, design, width, layers.size("classes", 10)));
  return graph;
}

}  // namespace

ir::Graph build_resnet18(const BuildOptions& options) {
  return build({"resnet18", {2, 2, 2, 2}, 1, basic_block}, options);
}

ir::Graph build_resnet50(const BuildOptions& options) {
  return build({"resnet50", {3, 4, 6, 3}, 4, bottleneck}, options);
}

ir::Graph build_resnet8(const BuildOptions& options) {
  return build_for_cifar({"resnet8", {1, 1, 1}, 1, basic_block}, 16, options);
}

ir::Graph build_resnet18_cifar(const BuildOptions& options) {
  return build_for_cifar({"resnet18_cifar", {2, 2, 2, 2}, 1, basic_block}, 64, options);
}

}  // namespace tessera::models
