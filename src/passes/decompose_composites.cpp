// Operators with a decomposition and subgraphs of their own become simpler operators: no device runs them as they are.
#include "ops/builder.h"
#include "ops/infer.h"
#include "ops/op_table.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

bool is_candidate(std::string_view name) {
  const ops::OpDef* op = ops::find_op(name);
  if (op == nullptr || op->decompose == nullptr) return false;
  for (const ops::AttributeSpec& spec : op->attributes) {
    if (spec.kind == ir::AttributeKind::graph) return true;
  }
  return false;
}

// True when the node was replaced; false when its types do not say enough yet.
bool replace(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ops::OpDef& op = ops::op_of(node);
  ops::GraphBuilder builder(graph);
  builder.set_name_prefix(node.name.empty() ? "" : node.name + "/");
  const auto results = op.decompose(builder, ops::AttributeReader(node, op), node.inputs);
  if (!results) return false;
  graph.remove_node(id);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    // The output keeps its name: an Identity carries the result into it.
    graph.add_node({"Identity", "", {(*results)[i]}, {node.outputs[i]}, {}, 0});
  }
  return true;
}

}  // namespace

ir::Graph decompose_composites(ir::Graph graph, const PassContext&) {
  bool changed = false, found = false;
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) found = found || is_candidate(graph.node(id).op);
  if (!found) return graph;
  for (const ir::NodeId id : order) {
    ops::infer_node_in_place(graph, id);
    if (is_candidate(graph.node(id).op)) changed = replace(graph, id) || changed;
  }
  if (changed) graph.sort_topologically();
  return graph;
}

}  // namespace tessera::passes
