#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {

ir::Graph build_vgg16(const BuildOptions& options) {
  struct Stage {
    std::int64_t channels, convolutions;
  };
  constexpr Stage kStages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};

  ir::Graph graph;
  graph.name = "vgg16";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 224, 224});
  std::int64_t channels = 3, index = 0;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.convolutions; ++i) {
      const std::string name = "features." + std::to_string(index++);
      x = layers.relu(layers.conv(name, x, channels, stage.channels, {.kernel = {3, 3}, .padding = 1}));
      channels = stage.channels;
    }
    x = layers.max_pool(x, {2, 2}, 2);
  }
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = layers.relu(layers.gemm("classifier.0", x, 512 * 7 * 7, 4096));
  x = layers.relu(layers.gemm("classifier.1", x, 4096, 4096));
  layers.output("output", layers.gemm("classifier.2", x, 4096, 1000));
  return graph;
}

}  // namespace tessera::models
