// Copies the nodes of a closed graph into another.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

// Appends copies of all nodes of `body` to `graph`, with `arguments` (one per input of the body, invalid for an absent
// one) in place of its inputs. Returns the values that stand for the body's outputs; an output that is an input or a
// constant of the body is returned as that argument or as a constant of `graph`. Names are made fresh where needed.
// `body` must have no variables.
std::vector<ValueId> append_inlined(Graph& graph, const Graph& body, std::span<const ValueId> arguments);

}  // namespace tessera::ir
