#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

struct MobileNetStage {
  std::int64_t expansion, channels, blocks, stride;  // the stride is of the first block
};

// Table 2 of arXiv:1801.04381.
constexpr MobileNetStage kMobileNetStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

}  // namespace

ir::Graph build_mobilenet_v2(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "mobilenet_v2";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  x = conv_norm(layers, "stem", x, 3, 32, {.stride = 2, .activation = BlockActivation::relu6});
  std::int64_t channels = 32, index = 0;
  for (const MobileNetStage& stage : kMobileNetStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      layers.scope("block" + std::to_string(index++));
      x = inverted_residual(layers, x,
                            {.in = channels,
                             .expanded = channels * stage.expansion,
                             .out = stage.channels,
                             .kernel = 3,
                             .stride = i == 0 ? stage.stride : 1,
                             .activation = BlockActivation::relu6});
      channels = stage.channels;
    }
  }
  layers.scope("");
  x = conv_norm(layers, "head", x, channels, 1280, {.kernel = 1, .activation = BlockActivation::relu6});
  layers.output("output", layers.gemm("classifier", global_average(layers, x), 1280, 1000));
  return graph;
}

}  // namespace tessera::models
