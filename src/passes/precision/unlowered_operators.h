// The operators on quantised data that lower_quantised did not lower to integers.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Each operator that reads dequantised data as real numbers, with why: "node 'act' (Sigmoid): Sigmoid has no integer
// form". The graph must have passed lower_quantised.
std::vector<std::string> unlowered_operators(const ir::Graph& graph);

}  // namespace tessera::passes
