// Classifiers of signals [batch, channels, time] by one bidirectional recurrent layer: a linear layer reads its states
// at all times.
#include <cmath>

#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

// `gates`: rows of the weights over the width; 3 of GRU, 4 of LSTM.
ir::Graph build(const std::string& op, std::int64_t gates, const BuildOptions& options) {
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const std::int64_t channels = layers.size("channels", 1), time = layers.size("time", 40);
  const std::int64_t width = layers.size("width", 32);
  const ValueId signal = layers.input("input", DType::f32, {layers.dim("batch"), channels, time});
  layers.scope("recurrent");
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(width));  // as PyTorch: uniform in ±1/√width
  const std::vector<ValueId> inputs{layers.transpose(signal, {2, 0, 1}),
                                    layers.weight("input_weights", {2, gates * width, channels}, deviation),
                                    layers.weight("recurrent_weights", {2, gates * width, width}, deviation),
                                    layers.weight("bias", {2, 2 * gates * width}, deviation)};
  ir::Attributes attributes{{"hidden_size", width}, {"direction", std::string("bidirectional")}};
  if (op == "GRU") attributes["linear_before_reset"] = std::int64_t{1};  // as PyTorch has it
  const ValueId states = layers.ops().add_multi(op, inputs, 1, std::move(attributes))[0];
  layers.scope("");
  // [time, directions, batch, width] → [batch, time · directions · width]
  const ValueId features = layers.reshape(layers.transpose(states, {2, 0, 1, 3}), {0, time * 2 * width});
  layers.output("output", layers.gemm("classifier", features, time * 2 * width, layers.size("classes", 10)));
  return graph;
}

}  // namespace

ir::Graph build_gru_classifier(const BuildOptions& options) {
  return build("GRU", 3, options);
}
ir::Graph build_lstm_classifier(const BuildOptions& options) {
  return build("LSTM", 4, options);
}

}  // namespace tessera::models
