// Differentiation of If, Loop and Scan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Replaces a Loop or Scan by copies of its body, one per iteration, and an If with a constant condition by the branch
// taken. Returns "" on success, else the reason why it cannot: the number of iterations of a Loop must be known, and
// all copies together may have at most 20,000 nodes. Afterwards types are not inferred and the order is not
// topological.
std::string unroll(ir::Graph& graph, ir::NodeId id);
bool can_unroll(const ir::Node& node);  // whether it is a Loop, Scan or If

// The gradients of the captured values of an If, computed by another If whose branches run a forward pass and a
// backward pass. `output_gradients` has one entry per output, invalid where zero; `wanted` and the result have one per
// captured value. Throws Error(unsupported) where a branch has no gradient.
std::vector<ir::ValueId> gradients_of_if(ir::Graph& graph, const ir::Node& node,
                                         std::span<const ir::ValueId> output_gradients,
                                         const std::vector<bool>& wanted);

}  // namespace tessera::passes
