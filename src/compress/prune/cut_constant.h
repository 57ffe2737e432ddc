// Reduces constants to some of the entries along an axis.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ir/graph.h"

namespace tessera::compress {

// The smaller constants, by the original constant, the axis, and the entries that are kept.
using CutConstants = std::map<std::tuple<ir::ValueId, std::size_t, std::vector<std::int64_t>>, ir::ValueId>;

// If operand `input` of the node is a constant, keeps only the entries `kept` along its axis. Other readers keep the
// original constant; operands that are cut alike share one smaller constant, which gets the original's name. `made`
// holds the smaller constants of this graph.
void cut_constant(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t axis,
                  const std::vector<std::int64_t>& kept, CutConstants& made);

// Does the same to a constant addend or factor that broadcasts to a value of rank `rank`, along the value's axis.
void cut_broadcast(ir::Graph& graph, ir::NodeId node, std::size_t input, std::size_t rank, std::size_t axis,
                   const std::vector<std::int64_t>& kept, CutConstants& made);

// Removes everything that is unused after the cuts, and infers all types anew.
void infer_cut_graph(ir::Graph& graph);

}  // namespace tessera::compress
