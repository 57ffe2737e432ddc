// Small valid graphs with inputs that suit them, from a seed.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "tessera/session.h"

namespace tessera::test {

struct GraphCase {
  ir::Graph graph;
  NamedValues inputs;  // one a graph input
};

// About `nodes` nodes of f32: element-wise with broadcasting, convolutions, pooling, products, normalisation, softmax,
// attention, data movement, reductions, residuals; shapes computed in i64; integer layers between QuantizeLinear and
// DequantizeLinear; sometimes a symbolic batch. Every value is evaluated while the graph grows, and what would overflow
// or amplify rounding beyond reason is left out, so that whoever computes the graph in f32 gets what the reference
// gives, within rounding_bounds().
GraphCase random_graph(std::uint64_t seed, int nodes = 12);

// The text form of the graph, and of its inputs as comments behind it.
std::string describe(const GraphCase& graph_case);

}  // namespace tessera::test
