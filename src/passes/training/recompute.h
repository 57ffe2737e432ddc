// Trading time for memory in training: results of the forward part that the way back needs are not kept but computed
// again (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

struct RecomputeReport {
  // Of results of the forward part, the most that are there at once on the way back: without and with recomputation.
  std::int64_t bytes_before = 0, bytes_after = 0;
  std::vector<std::pair<std::string, std::int64_t>> largest;  // of those without it: names and bytes, at most five
  std::int64_t dropped = 0;                                   // results
  double seconds = 0;                                         // more for a step, as predicted
};

// `forward` are the nodes of the forward part, in order; all others that read its results belong to the way back. While
// the peak of those results is above `budget_bytes`, the one that lowers it at the least price by the cost model is
// dropped, until none does: the way back gets a copy of what makes it, delayed to its first use there
// (ops/core/after.h). Random results, and results whose shapes are not known, stay. What the graph computes keeps all
// its bits.
RecomputeReport recompute(ir::Graph& graph, std::span<const ir::NodeId> forward, std::int64_t budget_bytes);

}  // namespace tessera::passes
