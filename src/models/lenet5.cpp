#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {

// With rectifiers and max pooling, as it is taught today.
ir::Graph build_lenet5(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "lenet5";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, 28, 28});
  x = layers.relu(layers.conv("conv1", x, 1, 6, {.kernel = {5, 5}, .padding = 2}));
  x = layers.max_pool(x, {2, 2}, 2);
  x = layers.relu(layers.conv("conv2", x, 6, 16, {.kernel = {5, 5}}));
  x = layers.max_pool(x, {2, 2}, 2);
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = layers.relu(layers.gemm("fc1", x, 16 * 5 * 5, 120));
  x = layers.relu(layers.gemm("fc2", x, 120, 84));
  layers.output("output", layers.gemm("fc3", x, 84, 10));
  return graph;
}

}  // namespace tessera::models
