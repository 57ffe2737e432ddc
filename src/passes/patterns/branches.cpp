#include "passes/patterns/branches.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/core/infer.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

std::optional<ir::Graph> typed(const ir::Graph& graph, const ir::Node& node, const ir::Graph& branch) {
  ir::Graph result = branch;
  for (std::size_t i = 0; i < result.inputs().size(); ++i) {
    const ir::ValueType& type = graph.value(node.inputs[node.formal_inputs() + i]).type;
    if (!type.is_tensor() || type.dtype != DType::undefined) result.value(result.inputs()[i]).type = type;
  }
  return if_legal([&] {
    ops::infer_graph(result);
    return std::move(result);
  });
}

bool is_used(const ir::Graph& branch, const std::vector<std::vector<ir::NodeId>>& uses, ir::ValueId value) {
  return !uses[static_cast<std::size_t>(value.index)].empty() || branch.is_output(value);
}

void drop_unused_captures(ir::Node& node) {
  std::vector<bool> used(static_cast<std::size_t>(node.captures), false);
  for (const auto& [name, branch] : ir::subgraphs_of(node)) {
    const auto uses = branch->compute_uses();
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || is_used(*branch, uses, branch->inputs()[i]);
  }
  if (std::ranges::all_of(used, [](bool each) { return each; })) return;
  const auto kept = [&](std::span<const ir::ValueId> captured) {
    std::vector<ir::ValueId> result;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) result.push_back(captured[i]);
    }
    return result;
  };
  for (auto& [name, attribute] : node.attributes) {
    auto* branch = std::get_if<ir::SubgraphPointer>(&attribute);
    if (branch == nullptr) continue;
    auto smaller = std::make_shared<ir::Graph>(**branch);
    smaller->set_inputs(kept(smaller->inputs()));
    smaller->remove_dead_and_compact();
    *branch = std::move(smaller);
  }
  const std::vector<ir::ValueId> captured = kept(std::span(node.inputs).subspan(node.formal_inputs()));
  node.inputs.resize(node.formal_inputs());
  node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
  node.captures = static_cast<std::int32_t>(captured.size());
}

}  // namespace

ir::Graph rewrite_branches(ir::Graph graph, const std::function<ir::Graph(ir::Graph)>& rewrite) {
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.op != "If") continue;
    for (auto& [name, attribute] : node.attributes) {
      auto* branch = std::get_if<ir::SubgraphPointer>(&attribute);
      std::optional<ir::Graph> given = branch != nullptr ? typed(graph, node, **branch) : std::nullopt;
      if (given) *branch = std::make_shared<const ir::Graph>(rewrite(std::move(*given)));
    }
    drop_unused_captures(node);
  }
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
