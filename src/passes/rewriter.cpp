#include "passes/rewriter.h"

#include <algorithm>
#include <vector>

namespace tessera::passes {

namespace {

// Whether the node is still what produces one of its outputs.
bool is_present(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  return !node.op.empty() && std::ranges::any_of(node.outputs, [&](ir::ValueId output) {
    return output.valid() && graph.value(output).producer == id;
  });
}

}  // namespace

bool rewrite_each(ir::Graph& graph, const Rule& rule, Visit visit) {
  const std::vector<ir::NodeId> order = graph.order();
  const std::size_t nodes = graph.node_count();
  bool changed = false;
  const auto apply = [&](ir::NodeId id) {
    if (is_present(graph, id)) changed = rule(id) || changed;
  };
  if (visit == Visit::forwards) {
    for (auto id = order.begin(); id != order.end(); ++id) apply(*id);
  } else {
    for (auto id = order.rbegin(); id != order.rend(); ++id) apply(*id);
  }
  // Nodes that a rule made in vain are dead, but would count as uses.
  if (!changed && graph.node_count() == nodes) return false;
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return changed;
}

}  // namespace tessera::passes
