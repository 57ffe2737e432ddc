// Replaces composite operators by their decompositions, except those that the device has a kernel for. Runs after
// folding, because many decompositions need known shapes.
#include "passes/simplify/decompose_composites.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"

namespace tessera::passes {
namespace {

bool is_composite(const ir::Node& node) {
  const ops::OpDef* op = ops::find_op(node.op);
  return op != nullptr && op->decompose != nullptr;
}

}  // namespace

bool has_kernels_for_composites(const ir::Graph& graph, const PassContext& context) {
  return std::ranges::all_of(graph.order(), [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    return !is_composite(node) || (context.keeps_composite && context.keeps_composite(graph, node));
  });
}

bool decompose_node(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ops::OpDef& op = ops::op_of(node);
  ops::GraphBuilder builder(graph);
  builder.set_name_prefix(node.name.empty() ? "" : node.name + "/");
  std::optional<std::vector<ir::ValueId>> results;
  try {
    results = op.decompose(builder, ops::AttributeReader(node, op), node.inputs);
  } catch (Error& error) {
    error.add_context(ir::describe(graph, id));
    throw;
  }
  return results && carry_results(graph, id, *results);
}

bool carry_results(ir::Graph& graph, ir::NodeId id, std::span<const ir::ValueId> results) {
  const std::vector<ir::ValueId> outputs = graph.node(id).outputs;
  bool placed = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) continue;
    // The output keeps its name: an Identity carries the result into it. The first takes the node's place.
    ir::Node carrier{"Identity", "", {results[i]}, {outputs[i]}, {}, 0};
    if (placed) graph.add_node(std::move(carrier));
    else graph.replace_node(id, std::move(carrier));
    placed = true;
  }
  return placed;
}

ir::Graph decompose_composites(ir::Graph graph, const PassContext& context) {
  bool decomposed = false;
  // A decomposition may contain other composites, but never itself, so the loop ends.
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<ir::NodeId> order = graph.order();
    const bool found =
        std::any_of(order.begin(), order.end(), [&](ir::NodeId id) { return is_composite(graph.node(id)); });
    if (!found) break;
    for (const ir::NodeId id : order) {
      ops::infer_node_in_place(graph, id);
      const ir::Node& node = graph.node(id);
      const bool stays = !is_composite(node) || (context.keeps_composite && context.keeps_composite(graph, node));
      if (!stays) changed = decompose_node(graph, id) || changed;
    }
    if (changed) graph.sort_topologically();
    decomposed = decomposed || changed;
  }
  if (!decomposed) return graph;
  // The new nodes may fold, and folding may make the shapes behind them known.
  graph = inline_constant_branches(fold_constants(sink_constants(std::move(graph), context), context), context);
  return decompose_composites(std::move(graph), context);
}

}  // namespace tessera::passes
