// Copies the nodes of a closed graph into another.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

// Inserts copies of all nodes of `body` into `graph` just before `position`, with `arguments` (one a body input, invalid for
// an absent one) in place of its inputs. Returns the values that stand for the body's outputs; an output that is an input
// or a constant of the body is returned as that argument or as a constant of `graph`. Names are made fresh where needed.
// `body` must have no variables.
std::vector<ValueId> inline_before(Graph& graph, NodeId position, const Graph& body, std::span<const ValueId> arguments);

}  // namespace tessera::ir
