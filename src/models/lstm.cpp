// An acoustic model: two bidirectional LSTM layers and a classifier over characters, as speech recognisers with CTC
// use.
#include <cmath>

#include "models/layers.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

// x [time, batch, in] → [time, batch, 2·width]. Weights as ONNX LSTM has them: gates i, o, f, c stacked.
ValueId bidirectional(LayerBuilder& layers, ValueId x, std::int64_t in, std::int64_t width) {
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(width));  // as PyTorch: uniform in ±1/√width
  const ValueId input_weights = layers.weight("input_weights", {2, 4 * width, in}, deviation);
  const ValueId recurrent_weights = layers.weight("recurrent_weights", {2, 4 * width, width}, deviation);
  const ValueId bias = layers.weight("bias", {2, 8 * width}, deviation);
  const ValueId y = layers.ops().add_multi("LSTM", {x, input_weights, recurrent_weights, bias}, 1,
                                           {{"hidden_size", width}, {"direction", std::string("bidirectional")}})[0];
  return layers.reshape(layers.transpose(y, {0, 2, 1, 3}),
                        {0, 0, 2 * width});  // [time, directions, batch, width] before
}

}  // namespace

ir::Graph build_lstm(const BuildOptions& options) {
  constexpr std::int64_t kFeatures = 80, kWidth = 512, kClasses = 29;
  ir::Graph graph;
  LayerBuilder layers(graph, options);
  const ValueId features =
      layers.input("features", DType::f32, {layers.dim("batch"), layers.dim("time", 200), kFeatures});
  ValueId x = layers.transpose(features, {1, 0, 2});
  layers.scope("layer0");
  x = bidirectional(layers, x, kFeatures, kWidth);
  layers.scope("layer1");
  x = bidirectional(layers, x, 2 * kWidth, kWidth);
  layers.scope("classifier");
  const ValueId scores = layers.linear("dense", x, 2 * kWidth, kClasses);
  layers.output("log_probabilities",
                layers.transpose(layers.ops().add("LogSoftmax", {scores}, {{"axis", std::int64_t{-1}}}), {1, 0, 2}));
  return graph;
}

}  // namespace tessera::models
