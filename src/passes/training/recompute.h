// Trades time for memory in training: activations that the backward pass needs are recomputed instead of kept (Chen et
// al., "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

struct RecomputeReport {
  // The largest total of activations that exist at one time in the backward pass: without and with recomputation.
  std::int64_t bytes_before = 0, bytes_after = 0;
  // Names and bytes of the largest activations without recomputation, at most five.
  std::vector<std::pair<std::string, std::int64_t>> largest;
  std::int64_t dropped = 0;  // number of activations that are recomputed
  double seconds = 0;        // additional time of a step, as predicted
};

// `forward` are the nodes of the forward pass, in order; all others that read its results belong to the backward pass.
// While the peak of activations exceeds `budget_bytes`, the one that lowers it at the least price by the cost model is
// dropped, until none lowers it: the backward pass gets a copy of the nodes that compute it, delayed to its first use
// (ops/core/after.h). Random results, and results of unknown shape, are kept. The outputs of the graph keep all their
// bits.
RecomputeReport recompute(ir::Graph& graph, std::span<const ir::NodeId> forward, std::int64_t budget_bytes);

}  // namespace tessera::passes
