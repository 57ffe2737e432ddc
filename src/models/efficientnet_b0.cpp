#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

struct EfficientNetStage {
  std::int64_t expansion, kernel, stride, channels, blocks;  // the stride is of the first block
};

// Table 1 of arXiv:1905.11946.
constexpr EfficientNetStage kEfficientNetStages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                                                     {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                                                     {6, 3, 1, 320, 1}};

}  // namespace

ir::Graph build_efficientnet_b0(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "efficientnet_b0";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  x = conv_norm(layers, "stem", x, 3, 32, {.stride = 2, .activation = BlockActivation::silu});
  std::int64_t channels = 32, index = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      layers.scope("block" + std::to_string(index++));
      x = inverted_residual(layers, x,
                            {.in = channels,
                             .expanded = channels * stage.expansion,
                             .out = stage.channels,
                             .kernel = stage.kernel,
                             .stride = i == 0 ? stage.stride : 1,
                             .activation = BlockActivation::silu,
                             .squeezed = channels / 4,
                             .squeeze_activation = BlockActivation::silu,
                             .gate = BlockActivation::sigmoid});
      channels = stage.channels;
    }
  }
  layers.scope("");
  x = conv_norm(layers, "head", x, channels, 1280, {.kernel = 1, .activation = BlockActivation::silu});
  layers.output("output", layers.gemm("classifier", global_average(layers, x), 1280, 1000));
  return graph;
}

}  // namespace tessera::models
