// Replacing one composite node; the pass of that name is declared in pass.h.
#pragma once

#include <span>

#include "passes/pass.h"

namespace tessera::passes {

// Puts what the node decomposes into in its place, at the end of the order. True when the node was replaced; false when
// its types do not say enough yet. The types of its inputs must be known.
bool decompose_node(ir::Graph& graph, ir::NodeId id);

// Whether the device has kernels for all composites of the graph, so that none is to be decomposed.
bool has_kernels_for_composites(const ir::Graph& graph, const PassContext& context);

// Replaces the node by what carries `results`, one an output of it, into its outputs, which keep their names. Whether
// it had any.
bool carry_results(ir::Graph& graph, ir::NodeId id, std::span<const ir::ValueId> results);

}  // namespace tessera::passes
