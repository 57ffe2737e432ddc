// How gradients get through If, Loop and Scan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Replaces a Loop or Scan by copies of its body, one an iteration, and an If whose condition is constant by the branch
// taken. Returns why it cannot, or "" where it has: how often a Loop runs must be known, and all copies together are at
// most 20,000 nodes. Types are not inferred and the order is not topological afterwards.
std::string unroll(ir::Graph& graph, ir::NodeId id);
bool can_unroll(const ir::Node& node);  // whether it is a Loop, Scan or If

// The gradients of the captured values of an If, by another If: each branch runs forward again and then back.
// `output_gradients` are one an output, invalid where zero; `wanted` and the result are one a captured value. Throws
// Error(unsupported) where a branch has no gradient.
std::vector<ir::ValueId> gradients_of_if(ir::Graph& graph, const ir::Node& node,
                                         std::span<const ir::ValueId> output_gradients,
                                         const std::vector<bool>& wanted);

}  // namespace tessera::passes
