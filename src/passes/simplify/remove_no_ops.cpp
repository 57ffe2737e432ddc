// Removes nodes that return their input: Identity, Dropout in inference mode, Cast to the same type, Reshape to the
// same shape, Transpose by the identity permutation, Concat of one tensor, Slice of everything, Pad by nothing, Tile by
// one.
#include <algorithm>

#include "ops/op_table.h"
#include "passes/find.h"
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
  return training != nullptr && training->dtype() == DType::boolean && training->elements() == 1 &&
         !*training->data<bool>();
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

bool takes_everything(const ir::Graph& graph, const ir::Node& slice) {
  const std::optional<ops::SliceRequest> request = slice_request_of(graph, slice);
  return request && ops::takes_all(*request, *dims_of(graph, slice.inputs[0]));
}

bool all_are(const std::optional<std::vector<std::int64_t>>& integers, std::int64_t number) {
  return integers && std::ranges::all_of(*integers, [&](std::int64_t each) { return each == number; });
}

bool is_no_op(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.empty() || !node.inputs[0].valid() || node.outputs.empty() || !node.outputs[0].valid()) return false;
  if (node.op == "Identity") return true;
  if (node.op == "Dropout") return dropout_is_off(graph, node);
  if (node.op == "Cast") return graph.value(node.inputs[0]).type.dtype == graph.value(node.outputs[0]).type.dtype;
  const ops::OpDef& op = ops::op_of(node);
  if (op.view || node.op == "Expand") return same_known_shape(graph, node.inputs[0], node.outputs[0]);
  if (node.op == "Transpose") return is_identity_permutation(node);
  if (node.op == "Slice") return takes_everything(graph, node);
  if (node.op == "Pad") return all_are(constant_integers(graph, node, 1), 0);
  if (node.op == "Tile") return all_are(constant_integers(graph, node, 1), 1);
  return op.has(ops::Trait::keeps_one_operand) && node.inputs.size() == 1;
}

// Makes the node that produces `source` produce `value` instead, which has no producer any more.
void give_under_another_name(ir::Graph& graph, ir::ValueId source, ir::ValueId value) {
  const ir::NodeId id = graph.value(source).producer;
  ir::Node maker = graph.node(id);
  maker.outputs[static_cast<std::size_t>(graph.value(source).output_index)] = value;
  graph.replace_node(id, std::move(maker));
}

}  // namespace

ir::Graph remove_no_ops(ir::Graph graph, const PassContext& context) {
  if (context.leaves_out("remove_no_ops")) return graph;
  // A graph output and the update of a variable keep their names: the node before a no-op takes over the name.
  std::vector<bool> stays(graph.value_count(), false);
  for (ir::ValueId output : graph.outputs()) stays[static_cast<std::size_t>(output.index)] = true;
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.update.valid()) stays[static_cast<std::size_t>(variable.update.index)] = true;
  }
  std::vector<ir::ValueId> replacements(graph.value_count());
  const auto in_place_of = [&](ir::ValueId value) {
    while (replacements[static_cast<std::size_t>(value.index)].valid())
      value = replacements[static_cast<std::size_t>(value.index)];
    return value;
  };
  const std::vector<ir::NodeId> order = graph.order();
  for (ir::NodeId id : order) {
    if (!is_no_op(graph, graph.node(id))) continue;
    const ir::ValueId source = in_place_of(graph.node(id).inputs[0]), result = graph.node(id).outputs[0];
    if (!stays[static_cast<std::size_t>(result.index)]) {
      replacements[static_cast<std::size_t>(result.index)] = source;
    } else if (graph.value(source).origin == ir::Origin::node && !stays[static_cast<std::size_t>(source.index)]) {
      ir::Node dead = graph.node(id);
      dead.outputs.clear();
      graph.replace_node(id, std::move(dead));
      give_under_another_name(graph, source, result);
      replacements[static_cast<std::size_t>(source.index)] = result;
    }
  }
  graph.replace_uses(replacements);
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
