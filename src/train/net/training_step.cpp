#include "train/net/training_step.h"

#include <algorithm>

#include "base/error.h"
#include "train/net/training_graph.h"

namespace tessera::train {

Model usual_training_step(const Model& model, const std::string& optimiser) {
  const ir::Graph& graph = model.graph();
  const auto& outputs = graph.outputs();
  const auto found = std::ranges::find_if(outputs, [&](ir::ValueId id) {
    const ir::ValueType& type = graph.value(id).type;
    return type.is_tensor() && is_float(type.dtype) && type.dims;
  });
  require(found != outputs.end(), ErrorKind::invalid_argument, "the model has nothing to train: no float output");
  const ir::ValueInfo& prediction = graph.value(*found);
  const ir::Dims& dims = *prediction.type.dims;
  TrainingGraphOptions options;
  options.loss.prediction = prediction.name;
  options.loss.target = graph.find_value("y").valid() ? "training/target" : "y";
  options.optimiser.name = optimiser;
  if (optimiser == "sgd") options.optimiser.momentum = 0.9;
  options.target_dims = dims;
  const auto axis = static_cast<std::ptrdiff_t>(dims.size() > 3 ? 1 : dims.size() - 1);
  const bool has_classes = dims.size() > 1 && dims[static_cast<std::size_t>(axis)].is_known() &&
                           dims[static_cast<std::size_t>(axis)].value() > 1;
  if (has_classes) {
    options.target_dims.erase(options.target_dims.begin() + axis);
  } else {
    options.loss.name = "mse";
    options.target_type = prediction.type.dtype;
  }
  return Model(std::make_shared<const ir::Graph>(make_training_graph(graph, options).graph));
}

}  // namespace tessera::train
