// Constants of which only some entries of an axis stay.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace tessera::compress {

// Gives operand `input` of the node, where it is a constant, only these entries of an axis. Other uses of the constant
// keep it as it is; the smaller one takes its name.
void cut_constant(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t axis,
                  const std::vector<std::int64_t>& kept);

// The same for a constant addend or factor of a value of that rank along the value's axis, as it broadcasts.
void cut_broadcast(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t rank, std::size_t axis,
                   const std::vector<std::int64_t>& kept);

// Drops what the smaller constants left without use, and infers all types anew.
void infer_cut_graph(ir::Graph& graph);

}  // namespace tessera::compress
