// What lower_quantised has left as it was written.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Each operator that reads dequantised data as real numbers, with why: "node 'act' (Sigmoid): Sigmoid has no integer
// form". Of a graph that lower_quantised has seen.
std::vector<std::string> unlowered_operators(const ir::Graph& graph);

}  // namespace tessera::passes
