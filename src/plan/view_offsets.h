// Nodes whose results lie in their first operand as they are: reshapes, and Slice, Split and Gather that take
// neighbours along the outermost axis.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ops/core/op.h"

namespace tessera::plan {

// For each output, the bytes of input 0 that lie before its own; nothing where a result is no run of them, or what it
// takes is computed. There is an input 0; types are concrete.
std::optional<std::vector<std::int64_t>> view_offsets(const ir::Graph& graph, const ir::Node& node,
                                                      const ops::OpDef& op);

// Whether parts of these shapes, joined along the axis, are runs of the result, each behind the other.
bool lie_in_their_join(const Shape& result, std::int64_t axis);

}  // namespace tessera::plan
