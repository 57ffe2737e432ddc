// Constants of which only some entries of an axis stay.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ir/graph.h"

namespace tessera::compress {

// Smaller constants by what they were made of: the constant, the axis, and its entries that stayed.
using CutConstants = std::map<std::tuple<ir::ValueId, std::size_t, std::vector<std::int64_t>>, ir::ValueId>;

// Gives operand `input` of the node, where it is a constant, only these entries of an axis. Other uses of the constant
// keep it as it is, and share the smaller one, which takes its name, where they are cut alike. `made`: of the graph.
void cut_constant(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t axis,
                  const std::vector<std::int64_t>& kept, CutConstants& made);

// The same for a constant addend or factor of a value of that rank along the value's axis, as it broadcasts.
void cut_broadcast(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t rank, std::size_t axis,
                   const std::vector<std::int64_t>& kept, CutConstants& made);

// Drops what the smaller constants left without use, and infers all types anew.
void infer_cut_graph(ir::Graph& graph);

}  // namespace tessera::compress
