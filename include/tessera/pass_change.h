// How passes change a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

namespace ir {
class Graph;
}

// What a graph asks of a device, as far as it is known.
struct GraphCost {
  double operations = 0, bytes = 0;  // read and written
  double seconds = 0;                // predicted
  std::int64_t unknown_nodes = 0;    // not counted: shapes that depend on data, subgraphs
};
using GraphMeasure = std::function<GraphCost(const ir::Graph&)>;

struct PassChange {
  std::string pass;
  std::int64_t nodes_before = 0, nodes_after = 0;
  GraphCost cost_before = {}, cost_after = {};  // without a measure zeros
  bool changed = false;                         // nodes, operators or costs
  double seconds = 0;                           // that the pass took
};

}  // namespace tessera
