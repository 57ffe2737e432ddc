// Finds nodes whose results are contiguous parts of their first operand: reshapes, and Slice, Split and Gather that
// take neighbouring elements along the outermost axis.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ops/core/op.h"

namespace tessera::plan {

// For each output, the offset in bytes of its data within input 0. Nothing if an output is not contiguous in input 0,
// or if what the node takes depends on computed values. Expects an input 0 and concrete types.
std::optional<std::vector<std::int64_t>> view_offsets(const ir::Graph& graph, const ir::Node& node,
                                                      const ops::OpDef& op);

// Whether parts of these shapes, joined along the axis, are contiguous in the result, one behind the other.
bool lie_in_their_join(const Shape& result, std::int64_t axis);

}  // namespace tessera::plan
