// An If whose condition is a constant is replaced by the nodes of the branch taken.
#include "ir/inline.h"
#include "ops/infer.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

void inline_branch(ir::Graph& graph, ir::NodeId id, bool condition) {
  const ir::Node node = graph.node(id);
  const ir::SubgraphPointer branch = std::get<ir::SubgraphPointer>(node.attributes.at(condition ? "then_branch" : "else_branch"));
  const std::span<const ir::ValueId> captured(node.inputs.begin() + static_cast<std::ptrdiff_t>(node.formal_inputs()), node.inputs.end());
  const std::vector<ir::ValueId> results = ir::inline_before(graph, id, *branch, captured);
  graph.remove_node(id);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    // A graph output keeps its name: an Identity carries the result into it.
    if (graph.is_output(node.outputs[i])) {
      graph.value(node.outputs[i]).type = {};
      graph.add_node({"Identity", "", {results[i]}, {node.outputs[i]}, {}, 0});
    } else {
      graph.replace_uses(node.outputs[i], results[i]);
    }
  }
}

}  // namespace

ir::Graph inline_constant_branches(ir::Graph graph, const PassContext& context) {
  bool changed = false;
  const std::vector<ir::NodeId> order = graph.order();
  for (ir::NodeId id : order) {
    const ir::Node& node = graph.node(id);
    if (node.op != "If") continue;
    const Tensor* condition = graph.constant(node.inputs[0]);
    if (condition == nullptr || condition->dtype() != DType::boolean || condition->elements() != 1) continue;
    inline_branch(graph, id, *condition->data<bool>());
    changed = true;
  }
  if (!changed) return graph;
  graph.sort_topologically();
  // The branch may hold more to fold, and further branches.
  return inline_constant_branches(fold_constants(sink_constants(std::move(graph), context), context), context);
}

}  // namespace tessera::passes
