// Convolutional classifiers of small inputs that train in seconds.
#include "base/error.h"
#include "models/layers.h"
#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {

// Three convolutions of 3x3 and a hidden layer. `size`: height and width of the image, a multiple of 4.
ir::Graph build_cnn_digits(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "cnn_digits";
  LayerBuilder layers(graph, options);
  const std::int64_t size = layers.size("size", 8), width = layers.size("width", 32);
  require(size % 4 == 0, ErrorKind::invalid_argument, "cnn_digits: size is {}, expected a multiple of 4", size);
  const LayerBuilder::Window same{.kernel = {3, 3}, .padding = 1};
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, size, size});
  x = layers.relu(layers.conv("conv1", x, 1, width, same));
  x = layers.relu(layers.conv("conv2", x, width, width, same));
  x = layers.max_pool(x, {2, 2}, 2);
  x = layers.relu(layers.conv("conv3", x, width, 2 * width, same));
  x = layers.max_pool(x, {2, 2}, 2);
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  const std::int64_t features = 2 * width * (size / 4) * (size / 4);
  x = layers.relu(layers.gemm("fc1", x, features, 4 * width, 2));
  layers.output("output", layers.gemm("fc2", x, 4 * width, layers.size("classes", 10)));
  return graph;
}

// Four convolutions over a signal, each behind the first with stride 2. `length`: of the signal, a multiple of 8.
ir::Graph build_conv1d(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "conv1d";
  LayerBuilder layers(graph, options);
  const std::int64_t length = layers.size("length", 40), width = layers.size("width", 48);
  require(length % 8 == 0, ErrorKind::invalid_argument, "conv1d: length is {}, expected a multiple of 8", length);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, length});
  x = conv_norm(layers, "conv1", x, 1, width, {.kernel = 5, .axes = 1});
  x = conv_norm(layers, "conv2", x, width, width, {.kernel = 3, .stride = 2, .axes = 1});
  x = conv_norm(layers, "conv3", x, width, width, {.kernel = 3, .stride = 2, .axes = 1});
  x = conv_norm(layers, "conv4", x, width, width, {.kernel = 3, .stride = 2, .axes = 1});
  x = layers.ops().add("Flatten", {x}, {{"axis", std::int64_t{1}}});
  layers.output("output", layers.gemm("classifier", x, width * length / 8, layers.size("classes", 10)));
  return graph;
}

}  // namespace tessera::models
