#include "ops/values/random_streams.h"

#include <algorithm>
#include <functional>

#include "ops/op_table.h"
#include "ops/symbols.h"

namespace tessera::ops {
namespace {

const std::string kName(kStream);

// Dropout's input `training_mode`; what is there for certain and false means that nothing is dropped.
constexpr std::size_t kTrainingMode = 2;

bool never_trains(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() <= kTrainingMode || !node.inputs[kTrainingMode].valid()) return true;
  const Tensor* trains = graph.constant(node.inputs[kTrainingMode]);
  return trains != nullptr && trains->dtype() == DType::boolean && trains->elements() == 1 && !*trains->data<bool>();
}

bool draws(const ir::Graph& graph, const ir::Node& node) {
  const OpDef* op = find_op(node.op);
  if (op == nullptr || op->deterministic) return false;
  return op->name != "Dropout" || !never_trains(graph, node);
}

bool any_node(const ir::Graph& graph, const std::function<bool(const ir::Graph&, const ir::Node&)>& holds) {
  return std::ranges::any_of(graph.order(), [&](const ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    return holds(graph, node) ||
           std::ranges::any_of(ir::subgraphs_of(node), [&](const auto& each) { return any_node(*each.second, holds); });
  });
}

bool lacks_stream(const ir::Graph& graph, const ir::Node& node) {
  return draws(graph, node) && !states_attribute(node, kName);
}

// Changes the nodes that `concerns` is true of, and copies the subgraphs that hold such nodes, which others may share.
void change_nodes(ir::Graph& graph, const std::function<bool(const ir::Graph&, const ir::Node&)>& concerns,
                  const std::function<void(ir::Node&)>& change) {
  for (const ir::NodeId id : graph.order()) {
    if (concerns(graph, graph.node(id))) change(graph.node(id));
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) {
      if (!any_node(*subgraph, concerns)) continue;
      ir::Graph copy = *subgraph;
      change_nodes(copy, concerns, change);
      graph.node(id).attributes[name] = std::make_shared<const ir::Graph>(std::move(copy));
    }
  }
}

}  // namespace

AttributeSpec stream_attribute() {
  return {kStream, ir::AttributeKind::integer};
}

bool draws_random_numbers(const ir::Graph& graph) {
  return any_node(graph, draws);
}

void number_random_streams(ir::Graph& graph) {
  if (!any_node(graph, lacks_stream)) return;
  std::int64_t next = 0;
  any_node(graph, [&](const ir::Graph&, const ir::Node& node) {
    const auto found = node.attributes.find(kName);
    const auto* stream = found != node.attributes.end() ? std::get_if<std::int64_t>(&found->second) : nullptr;
    const OpDef* op = find_op(node.op);
    // A file may hold any number; one that leaves none behind it counts from the start.
    if (stream != nullptr && op != nullptr && !op->deterministic && *stream < (std::int64_t{1} << 62))
      next = std::max(next, *stream + 1);
    return false;
  });
  change_nodes(graph, lacks_stream, [&](ir::Node& node) { node.attributes[kName] = next++; });
}

void remove_random_streams(ir::Graph& graph) {
  const auto has_stream = [](const ir::Graph&, const ir::Node& node) {
    const OpDef* op = find_op(node.op);
    return op != nullptr && !op->deterministic && node.attributes.contains(kName);
  };
  change_nodes(graph, has_stream, [](ir::Node& node) { node.attributes.erase(kName); });
}

}  // namespace tessera::ops
