// A normalisation that a model spells out: (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon), or the same without
// the mean, with a scale and a shift behind it, in the spellings of exporters.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// mean(x²), or that of x less its mean.
struct MeasuredVariance {
  ir::ValueId x;
  std::vector<std::int64_t> axes;
  bool centred = false;
  double epsilon = 0;
};
// x normalised, times a scale and plus a shift where they are valid.
struct SpeltNormalisation {
  MeasuredVariance of;
  ir::ValueId scale, shift;
};

// The normalisation whose result is `value`, if there is one. `inside` receives the nodes that it is made of, without
// the node that gives `value`.
std::optional<SpeltNormalisation> find_normalisation(const ir::Graph& graph, ir::ValueId value,
                                                     std::vector<ir::NodeId>& inside);

}  // namespace tessera::passes
