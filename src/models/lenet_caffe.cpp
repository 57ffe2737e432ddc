// The two nets that papers on compression use for comparison (Han et al., arXiv:1506.02626 and arXiv:1510.00149), as in
// Caffe's model zoo.
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {

ir::Graph build_lenet_300_100(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "lenet_300_100";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, 28, 28});
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = layers.relu(layers.gemm("fc1", x, 28 * 28, 300, 2));
  x = layers.relu(layers.gemm("fc2", x, 300, 100, 2));
  layers.output("output", layers.gemm("fc3", x, 100, 10));
  return graph;
}

// Caffe's LeNet has no activation between a convolution and its pooling.
ir::Graph build_lenet5_caffe(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "lenet5_caffe";
  LayerBuilder layers(graph, options);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, 28, 28});
  x = layers.max_pool(layers.conv("conv1", x, 1, 20, {.kernel = {5, 5}}), {2, 2}, 2);
  x = layers.max_pool(layers.conv("conv2", x, 20, 50, {.kernel = {5, 5}}), {2, 2}, 2);
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = layers.relu(layers.gemm("fc1", x, 50 * 4 * 4, 500, 2));
  layers.output("output", layers.gemm("fc2", x, 500, 10));
  return graph;
}

}  // namespace tessera::models
