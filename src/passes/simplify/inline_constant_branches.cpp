// Replaces an If with a constant condition by the nodes of the branch taken.
#include "ir/inline.h"
#include "ops/core/infer.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

// The values that replace the outputs of an If when the branch is taken; its nodes are appended to the graph.
std::vector<ir::ValueId> take_branch(ir::Graph& graph, const ir::Node& node, bool condition) {
  const ir::SubgraphPointer branch =
      std::get<ir::SubgraphPointer>(node.attributes.at(condition ? "then_branch" : "else_branch"));
  const std::span<const ir::ValueId> captured(node.inputs.begin() + static_cast<std::ptrdiff_t>(node.formal_inputs()),
                                              node.inputs.end());
  return ir::append_inlined(graph, *branch, captured);
}

}  // namespace

ir::Graph inline_constant_branches(ir::Graph graph, const PassContext& context) {
  if (context.leaves_out("inline_constant_branches")) return graph;
  bool changed = false;
  std::vector<ir::ValueId> replacements(graph.value_count());
  std::vector<bool> is_output(graph.value_count(), false);
  for (ir::ValueId output : graph.outputs()) is_output[static_cast<std::size_t>(output.index)] = true;
  const std::vector<ir::NodeId> order = graph.order();
  for (ir::NodeId id : order) {
    if (graph.node(id).op != "If") continue;
    const Tensor* condition = graph.constant(graph.node(id).inputs[0]);
    if (condition == nullptr || condition->dtype() != DType::boolean || condition->elements() != 1) continue;
    const ir::Node node = graph.node(id);
    const std::vector<ir::ValueId> results = take_branch(graph, node, *condition->data<bool>());
    bool placed = false;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      // A graph output keeps its name: an Identity carries the result into it.
      if (is_output[static_cast<std::size_t>(node.outputs[i].index)]) {
        graph.value(node.outputs[i]).type = {};
        ir::Node carrier{"Identity", "", {results[i]}, {node.outputs[i]}, {}, 0};
        if (placed) graph.add_node(std::move(carrier));
        else graph.replace_node(id, std::move(carrier));
        placed = true;
      } else {
        replacements[static_cast<std::size_t>(node.outputs[i].index)] = results[i];
      }
    }
    changed = true;
  }
  graph.replace_uses(replacements);
  if (!changed) return graph;
  graph.sort_topologically();
  // The branch may hold more to fold, and further branches.
  return inline_constant_branches(fold_constants(sink_constants(std::move(graph), context), context), context);
}

}  // namespace tessera::passes
