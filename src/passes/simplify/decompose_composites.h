// Decomposes single composite nodes; the pass of that name is declared in pass.h.
#pragma once

#include <span>

#include "passes/pass.h"

namespace tessera::passes {

// Replaces the node by its decomposition, whose nodes go to the end of the order. Returns false when its types do not
// say enough yet. The types of its inputs must be known.
bool decompose_node(ir::Graph& graph, ir::NodeId id);

// Whether the device has kernels for all composites of the graph, so that none must be decomposed.
bool has_kernels_for_composites(const ir::Graph& graph, const PassContext& context);

// Replaces the node by Identity nodes from `results`, one per output, to its outputs, which keep their names. Returns
// whether the node had any outputs.
bool carry_results(ir::Graph& graph, ir::NodeId id, std::span<const ir::ValueId> results);

}  // namespace tessera::passes
