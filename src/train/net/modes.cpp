#include "train/net/modes.h"

#include "base/error.h"
#include "ops/core/builder.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr std::size_t kMode = 2;  // the input training_mode of Dropout

bool reads_mode(const ir::Graph& graph, const ir::Node& node) {
  return node.inputs.size() > kMode && node.inputs[kMode].valid() && !graph.is_constant(node.inputs[kMode]);
}

// Makes a BatchNormalization normalise by its running statistics, with only the one output that it has in that form.
void normalise_by_statistics(ir::Graph& graph, NodeId id, const std::vector<std::vector<NodeId>>& uses) {
  ir::Node node = graph.node(id);
  const auto training = node.attributes.find("training_mode");
  if (training == node.attributes.end()) return;
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (output.valid() && (graph.is_output(output) || !uses[static_cast<std::size_t>(output.index)].empty())) return;
  }
  node.attributes.erase(training);
  node.outputs.resize(1);
  graph.replace_node(id, std::move(node));
}

}  // namespace

ir::Graph inference_form(ir::Graph model) {
  const auto uses = model.compute_uses();
  const std::vector<NodeId> order = model.order();
  for (const NodeId id : order) {
    if (model.node(id).op == "BatchNormalization") normalise_by_statistics(model, id, uses);
    if (model.node(id).op == "Dropout" && model.node(id).inputs.size() > kMode && !reads_mode(model, model.node(id)))
      model.node(id).inputs.resize(kMode);
  }
  return model;
}

void train_dropout(ir::Graph& graph, double ratio) {
  const std::vector<NodeId> order = graph.order();
  ops::GraphBuilder builder(graph);
  bool found = false;
  for (const NodeId id : order) {
    if (graph.node(id).op != "Dropout" || reads_mode(graph, graph.node(id))) continue;
    found = true;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    inputs.resize(kMode + 1);
    if (ratio >= 0) inputs[1] = builder.scalar(ratio);
    inputs[kMode] = builder.constant(Tensor::scalar(ratio != 0));
    graph.node(id).inputs = std::move(inputs);
  }
  require(
      found || ratio <= 0, ErrorKind::invalid_argument,
      "model.dropout is {}, but the net has no Dropout: exporters leave it out of a net that is in evaluation mode. "
      "Export it in training mode (torch.onnx.export(…, training=torch.onnx.TrainingMode.TRAINING))",
      ratio);
}

}  // namespace tessera::train
