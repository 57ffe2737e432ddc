// Applies a rule to each node of a graph, and cleans up after it.
#pragma once

#include <functional>
#include <optional>
#include <type_traits>

#include "ir/graph.h"
#include "tessera/error.h"

namespace tessera::passes {

// Rewrites the graph around one node, and returns whether it changed the graph. Nodes that it adds may come behind
// those that use them; it may remove nodes, also the given one.
using Rule = std::function<bool(ir::NodeId)>;

enum class Visit { forwards, backwards };

// Calls the rule for each node that the graph has at the start, unless it has been removed meanwhile, in the order of
// the nodes or against it. If any call returned true or added nodes, the nodes are sorted, and those that nothing uses
// are removed; handles from before are invalid then. Returns whether any call returned true.
bool rewrite_each(ir::Graph& graph, const Rule& rule, Visit visit = Visit::forwards);

// The result of `f`, or nothing if it throws Error because a node or its operands are not legal: a pass leaves such a
// node alone, and the run that reaches it reports what is wrong with it. Error(cancelled) passes.
template <typename Function>
auto if_legal(Function&& f) -> std::optional<std::invoke_result_t<Function>> {
  try {
    return f();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return std::nullopt;
  }
}

}  // namespace tessera::passes
