// Small questions about a graph that passes ask when they look for a pattern.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// The node of that operator that makes the value, or null.
const ir::Node* producer_of(const ir::Graph& graph, ir::ValueId value, std::string_view op);
// Null while the rank is unknown.
const ir::Dims* dims_of(const ir::Graph& graph, ir::ValueId value);
// The number that a constant of one float32 element holds.
std::optional<double> number_of(const ir::Graph& graph, ir::ValueId value);
// Whether something other than nodes uses the value: an output of the graph, or what a variable becomes.
bool is_result(const ir::Graph& graph, ir::ValueId value);
// Of a Transpose whose input has that rank.
std::vector<std::int64_t> permutation_of(const ir::Node& transpose, std::size_t rank);

}  // namespace tessera::passes
