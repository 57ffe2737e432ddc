#include "support/pruned_model.h"

#include <algorithm>

#include "runtime/session/random_inputs.h"
#include "tessera/session.h"
#include "train/net/layer_weights.h"
#include "train/net/trained_model.h"

namespace tessera::test {

Tensor output_of(const Model& model) {
  SessionOptions options;
  options.device = "reference";
  return Session(model, options).run(runtime::random_inputs(model, 1)).begin()->second.tensor();
}

Model masked(const Model& model, const PruneReport& report) {
  std::map<std::string, Tensor> values;
  for (const train::LayerWeight& layer : train::layer_weights(model.graph())) {
    const auto found = std::ranges::find(report.layers, layer.name, &PrunedLayer::name);
    if (found == report.layers.end()) continue;
    Tensor weights = model.graph().constant(layer.value)->clone();
    std::int64_t inner = 1;
    for (std::size_t i = static_cast<std::size_t>(layer.input_axis) + 1; i < layer.shape.size(); ++i)
      inner *= layer.shape[i];
    const std::int64_t size = layer.shape[static_cast<std::size_t>(layer.input_axis)];
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      if (std::ranges::binary_search(found->removed_inputs, i / inner % size)) weights.mutable_data<float>()[i] = 0;
    }
    values[layer.name] = weights;
  }
  return train::with_weights(model, values);
}

}  // namespace tessera::test
