// Removes nodes that pass their input through: Identity, Dropout at inference, Cast to the same type, Reshape to the same
// shape, Transpose by the identity permutation, Concat of one tensor.
#include <algorithm>

#include "passes/pass.h"

namespace tessera::passes {
namespace {

bool same_known_shape(const ir::Graph& graph, ir::ValueId a, ir::ValueId b) {
  const auto left = graph.value(a).type.shape(), right = graph.value(b).type.shape();
  return left && right && *left == *right;
}

bool dropout_is_off(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() > 1 && node.outputs[1].valid()) return false;
  if (node.inputs.size() < 3 || !node.inputs[2].valid()) return true;
  const Tensor* training = graph.constant(node.inputs[2]);
  return training != nullptr && training->dtype() == DType::boolean && training->elements() == 1 && !*training->data<bool>();
}

bool is_identity_permutation(const ir::Node& node) {
  const auto found = node.attributes.find("perm");
  if (found == node.attributes.end()) return false;
  const auto& permutation = std::get<std::vector<std::int64_t>>(found->second);
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

bool is_no_op(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.empty() || !node.inputs[0].valid() || node.outputs.empty() || !node.outputs[0].valid()) return false;
  if (node.op == "Identity") return true;
  if (node.op == "Dropout") return dropout_is_off(graph, node);
  if (node.op == "Cast") return graph.value(node.inputs[0]).type.dtype == graph.value(node.outputs[0]).type.dtype;
  if (node.op == "Reshape" || node.op == "Expand" || node.op == "Flatten" || node.op == "Squeeze" || node.op == "Unsqueeze") return same_known_shape(graph, node.inputs[0], node.outputs[0]);
  if (node.op == "Transpose") return is_identity_permutation(node);
  if (node.op == "Concat" || node.op == "Sum" || node.op == "Max" || node.op == "Min" || node.op == "Mean") return node.inputs.size() == 1;
  return false;
}

}  // namespace

ir::Graph remove_no_ops(ir::Graph graph, const PassContext&) {
  // A graph output keeps its name and producer, and so does what a variable becomes.
  std::vector<bool> stays(graph.value_count(), false);
  for (ir::ValueId output : graph.outputs()) stays[static_cast<std::size_t>(output.index)] = true;
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.update.valid()) stays[static_cast<std::size_t>(variable.update.index)] = true;
  }
  std::vector<ir::ValueId> replacements(graph.value_count());
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (!is_no_op(graph, node) || stays[static_cast<std::size_t>(node.outputs[0].index)]) continue;
    replacements[static_cast<std::size_t>(node.outputs[0].index)] = node.inputs[0];
  }
  graph.replace_uses(replacements);
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
