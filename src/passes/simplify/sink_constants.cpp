// Copies constants that a subgraph captures into the subgraph, so that folding and weight packing see them there.
#include <algorithm>

#include "passes/pass.h"

namespace tessera::passes {
namespace {

// The subgraph with its inputs at `positions` replaced by constants.
ir::SubgraphPointer with_constants(const ir::Graph& body, const std::vector<std::pair<std::size_t, Tensor>>& sunk) {
  auto copy = std::make_shared<ir::Graph>(body);
  std::vector<ir::ValueId> inputs = copy->inputs();
  std::vector<ir::ValueId> replacements(copy->value_count());
  for (const auto& [position, tensor] : sunk) {
    const ir::ValueId old = inputs[position];
    replacements[static_cast<std::size_t>(old.index)] =
        copy->add_constant(tensor, copy->fresh_name(copy->value(old).name));
    inputs[position] = {};
  }
  copy->replace_uses(replacements);
  std::erase_if(inputs, [](ir::ValueId id) { return !id.valid(); });
  copy->set_inputs(std::move(inputs));
  copy->remove_dead_and_compact();
  return copy;
}

void sink_into(ir::Graph& graph, ir::NodeId id) {
  ir::Node& node = graph.node(id);
  const std::size_t formal = node.formal_inputs();
  std::vector<std::size_t> sunk_captures;
  for (std::size_t i = formal; i < node.inputs.size(); ++i) {
    if (graph.is_constant(node.inputs[i])) sunk_captures.push_back(i - formal);
  }
  if (sunk_captures.empty()) return;
  for (auto& [name, attribute] : node.attributes) {
    auto* subgraph = std::get_if<ir::SubgraphPointer>(&attribute);
    if (subgraph == nullptr) continue;
    const std::size_t body_formal = (*subgraph)->inputs().size() - static_cast<std::size_t>(node.captures);
    std::vector<std::pair<std::size_t, Tensor>> sunk;
    for (std::size_t capture : sunk_captures)
      sunk.emplace_back(body_formal + capture, *graph.constant(node.inputs[formal + capture]));
    *subgraph = with_constants(**subgraph, sunk);
  }
  for (std::size_t capture : sunk_captures) node.inputs[formal + capture] = {};
  node.inputs.erase(std::remove_if(node.inputs.begin() + static_cast<std::ptrdiff_t>(formal), node.inputs.end(),
                                   [](ir::ValueId id) { return !id.valid(); }),
                    node.inputs.end());
  node.captures -= static_cast<std::int32_t>(sunk_captures.size());
}

}  // namespace

ir::Graph sink_constants(ir::Graph graph, const PassContext&) {
  for (ir::NodeId id : graph.order()) {
    if (graph.node(id).captures > 0) sink_into(graph, id);
  }
  return graph;
}

}  // namespace tessera::passes
