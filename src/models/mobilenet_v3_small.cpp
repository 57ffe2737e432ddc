#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

struct Block {
  std::int64_t kernel, expanded, out;
  bool squeeze;
  BlockActivation activation;
  std::int64_t stride;
};

constexpr BlockActivation kRelu = BlockActivation::relu, kHardSwish = BlockActivation::hard_swish;

// Table 2 of arXiv:1905.02244.
constexpr Block kBlocks[] = {
    {3, 16, 16, true, kRelu, 2},       {3, 72, 24, false, kRelu, 2},      {3, 88, 24, false, kRelu, 1},
    {5, 96, 40, true, kHardSwish, 2},  {5, 240, 40, true, kHardSwish, 1}, {5, 240, 40, true, kHardSwish, 1},
    {5, 120, 48, true, kHardSwish, 1}, {5, 144, 48, true, kHardSwish, 1}, {5, 288, 96, true, kHardSwish, 2},
    {5, 576, 96, true, kHardSwish, 1}, {5, 576, 96, true, kHardSwish, 1},
};

constexpr float kEpsilon = 1e-3f;

// A quarter of the width, rounded to a multiple of 8 that is at least 8 and not more than 10 % smaller.
constexpr std::int64_t squeezed_width(std::int64_t expanded) {
  const std::int64_t width = expanded / 4, rounded = width < 8 ? 8 : (width + 4) / 8 * 8;
  return rounded * 10 < width * 9 ? rounded + 8 : rounded;
}

}  // namespace

ir::Graph build_mobilenet_v3_small(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "mobilenet_v3_small";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  x = conv_norm(layers, "stem", x, 3, 16, {.stride = 2, .activation = kHardSwish, .epsilon = kEpsilon});
  std::int64_t channels = 16, index = 0;
  for (const Block& block : kBlocks) {
    layers.scope("block" + std::to_string(index++));
    x = inverted_residual(layers, x,
                          {.in = channels,
                           .expanded = block.expanded,
                           .out = block.out,
                           .kernel = block.kernel,
                           .stride = block.stride,
                           .activation = block.activation,
                           .squeezed = block.squeeze ? squeezed_width(block.expanded) : 0,
                           .epsilon = kEpsilon});
    channels = block.out;
  }
  layers.scope("");
  x = conv_norm(layers, "head", x, channels, 576, {.kernel = 1, .activation = kHardSwish, .epsilon = kEpsilon});
  x = activate(layers, layers.gemm("classifier.0", global_average(layers, x), 576, 1024), kHardSwish);
  layers.output("output", layers.gemm("classifier.1", x, 1024, 1000));
  return graph;
}

}  // namespace tessera::models
