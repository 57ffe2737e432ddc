#include <algorithm>
#include <string_view>

#include "compress/quantise/insert_quantisation.h"

namespace tessera::compress {
namespace {

bool moves(const ir::Node& node) {
  constexpr std::string_view kOps[] = {"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"};
  return std::ranges::find(kOps, node.op) != std::end(kOps) && node.outputs.size() == 1;
}

bool clips(const ir::Node& node) {
  return node.op == "Relu" || node.op == "Clip";
}

}  // namespace

QuantisedActivations::QuantisedActivations(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                                           const std::set<std::size_t>& selected)
    : graph_(graph) {
  for (const std::size_t i : selected) {
    if (layers[i].kind == LayerKind::table) continue;
    values_.insert(layers[i].data);
    nodes_.insert(layers[i].node);
    layers_.insert(layers[i].node);
  }
  // In reverse order, because whether a value is quantised depends on its readers.
  const std::vector<ir::NodeId>& order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (graph.node(*id).op == "Add") add_sum(*id);
    else if (moves(graph.node(*id))) add_movement(*id);
  }
}

ir::ValueId QuantisedActivations::scale_of(ir::ValueId value) const {
  for (auto found = shared_.find(value); found != shared_.end(); found = shared_.find(value)) value = found->second;
  return value;
}

// Whether a layer makes the value, directly or followed by movement and by an activation that rounding includes.
bool QuantisedActivations::made_by_layer(ir::ValueId value) const {
  for (bool clipped = false; graph_.value(value).origin == ir::Origin::node;) {
    const ir::NodeId producer = graph_.value(value).producer;
    const ir::Node& node = graph_.node(producer);
    if (layers_.contains(producer)) return true;
    const bool clip = clips(node);
    if ((!clip || clipped) && !moves(node)) return false;
    clipped = clip;
    value = node.inputs[0];
  }
  return false;
}

// Adds the operands of a sum of two quantised tensors if the sum is quantised too: it is then computed on integers.
void QuantisedActivations::add_sum(ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  ir::ValueId result = node.outputs[0];
  if (!values_.contains(result)) {
    bool through = false;
    for (const ir::ValueId each : values_) {
      if (graph_.value(each).origin != ir::Origin::node) continue;
      const ir::Node& producer = graph_.node(graph_.value(each).producer);
      through = through || (producer.op == "Relu" && producer.inputs[0] == result);
    }
    if (!through) return;
  }
  for (const ir::ValueId operand : node.inputs) {
    if (graph_.is_constant(operand) || graph_.value(operand).type.dtype != DType::f32) return;
    const bool sum = graph_.value(operand).origin == ir::Origin::node && !values_.contains(operand) &&
                     graph_.node(graph_.value(operand).producer).op == "Add";
    if (!values_.contains(operand) && !made_by_layer(operand) && !sum) return;
  }
  for (const ir::ValueId operand : node.inputs) values_.insert(operand);
  nodes_.insert(id);
}

void QuantisedActivations::add_movement(ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  const ir::ValueId from = node.inputs[0], to = node.outputs[0];
  if (!values_.contains(to) || graph_.is_constant(from)) return;
  if (!values_.contains(from) && !made_by_layer(from)) return;
  values_.insert(from);
  nodes_.insert(id);
  shared_[to] = from;
}

}  // namespace tessera::compress
