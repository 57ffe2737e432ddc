// A normalisation written as arithmetic, (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) or without the mean,
// followed by an optional scale and shift, in the forms that exporters write.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// mean(x²), or, if centred, the mean of (x - mean(x))².
struct MeasuredVariance {
  ir::ValueId x;
  std::vector<std::int64_t> axes;
  bool centred = false;
  double epsilon = 0;
};
// x normalised, times the scale and plus the shift where these are valid.
struct SpeltNormalisation {
  MeasuredVariance of;
  ir::ValueId scale, shift;
};

// The normalisation whose result is `value`, if there is one. `inside` receives the nodes of the pattern, except the
// one that produces `value`.
std::optional<SpeltNormalisation> find_normalisation(const ir::Graph& graph, ir::ValueId value,
                                                     std::vector<ir::NodeId>& inside);

}  // namespace tessera::passes
