// Which nodes draw random numbers, and from which stream.
//
// A node that draws and has no seed of its own draws from the Philox stream that its attribute `stream` names, under
// the run's seed. The attribute is Tessera's own: it is given once, before all passes, so that neither the names nor
// the ids of nodes, which passes change, have a part in what is drawn.
#pragma once

#include "ir/graph.h"
#include "ops/core/op.h"

namespace tessera::ops {

inline constexpr std::string_view kStream = "stream";

// The attribute, which every operator with `deterministic = false` has.
AttributeSpec stream_attribute();

// Whether a node of the graph, or of a subgraph in it, draws random numbers when it runs. Dropout that is known not to
// train draws none.
bool draws_random_numbers(const ir::Graph& graph);

// Gives every node that draws, in subgraphs too, a stream that no other node has; nodes that have one keep it. The
// numbers follow the order of the nodes.
void number_random_streams(ir::Graph& graph);

// Takes the streams away again, for files that other programs read.
void remove_random_streams(ir::Graph& graph);

}  // namespace tessera::ops
