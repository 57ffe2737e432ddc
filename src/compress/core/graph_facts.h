// Facts about a graph that compression needs, beside those of passes/find.h.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::compress {

// The rank of a tensor, or 0 if it is not known.
std::size_t rank_of(const ir::Graph& graph, ir::ValueId value);
// The size of an axis, or -1 if it is not known.
std::int64_t size_of(const ir::Graph& graph, ir::ValueId value, std::size_t axis);
// The axis, counted from the front: negative ones count from the end.
std::size_t axis_at(std::int64_t axis, std::size_t rank);
// Whether each element of the result is computed from the operands' elements at the same place, after broadcasting.
bool is_element_wise(const ir::Node& node);
// The number of elements of all float32 constants.
std::int64_t count_parameters(const ir::Graph& graph);

}  // namespace tessera::compress
