// Small questions about a graph that compression asks, beside those of passes/find.h.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::compress {

// The rank of a tensor, or 0 where it is not known.
std::size_t rank_of(const ir::Graph& graph, ir::ValueId value);
// The size of an axis, or -1 where it is not known.
std::int64_t size_of(const ir::Graph& graph, ir::ValueId value, std::size_t axis);
// The axis, counted from the front: negative ones count from the end.
std::size_t axis_at(std::int64_t axis, std::size_t rank);
// Tells whether each element of the result is computed from the elements at its place, where operands broadcast.
bool is_element_wise(const ir::Node& node);
// The number of elements of all float32 constants.
std::int64_t count_parameters(const ir::Graph& graph);

}  // namespace tessera::compress
