// Finds element-wise operators that could be fused into the operator before them, and the time that would save.
#pragma once

#include <span>
#include <vector>

#include "cost/evaluation.h"

namespace tessera::cost {

struct Fusion {
  std::size_t layer = 0;  // of the evaluation: the element-wise operator
  std::size_t into = 0;   // the operator before it, or the first of a chain
  double gain_seconds = 0;
  double saved_bytes = 0;  // the value between them is neither written nor read
};

// Each element-wise operator that is the only user of a product, a normalisation or another element-wise operator.
std::vector<Fusion> find_fusions(const Evaluation& evaluation, const ir::Graph& graph);
double saved_bytes(std::span<const Fusion> fusions);

}  // namespace tessera::cost
