// The changes that passes make to a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

namespace ir {
class Graph;
}

// The cost of a graph on a device, as far as it is known.
struct GraphCost {
  double operations = 0, bytes = 0;  // bytes: read and written
  double seconds = 0;                // predicted
  std::int64_t unknown_nodes = 0;    // not counted: shapes that depend on data, subgraphs
};
// Predicts the cost of a graph.
using GraphMeasure = std::function<GraphCost(const ir::Graph&)>;

struct PassChange {
  std::string pass;
  std::int64_t nodes_before = 0, nodes_after = 0;
  GraphCost cost_before = {}, cost_after = {};  // zeros without a measure
  bool changed = false;                         // whether nodes, operators or costs changed
  double seconds = 0;                           // duration of the pass
};

}  // namespace tessera
