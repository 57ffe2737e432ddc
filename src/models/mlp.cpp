// A perceptron with rectifiers, the "MLP" in comparisons of training speed.
#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {

ir::Graph build_mlp(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "mlp";
  LayerBuilder layers(graph, options);
  std::int64_t features = layers.size("features", 784);
  const std::int64_t width = layers.size("width", 256), hidden_layers = layers.size("layers", 2);
  ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), features});
  for (std::int64_t i = 1; i <= hidden_layers; ++i) {
    x = layers.relu(layers.gemm("fc" + std::to_string(i), x, features, width, 2));
    features = width;
  }
  layers.output("output", layers.gemm("classifier", x, features, layers.size("classes", 10)));
  return graph;
}

}  // namespace tessera::models
