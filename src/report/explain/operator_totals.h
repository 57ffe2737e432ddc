// Sums up the cost of a model's operators by type.
#pragma once

#include <string>
#include <vector>

#include "report/explain/explain.h"

namespace tessera::report {

struct OperatorTotal {
  std::string op;
  std::int64_t count = 0;
  double seconds = 0;           // predicted
  double measured_seconds = 0;  // 0 if not measured
  double operations = 0, bytes = 0;
};

// The totals on the first device, the type with the longest time first (measured, if there are measurements; else
// predicted). Operators that do nothing (views) are not counted.
std::vector<OperatorTotal> operator_totals(const Explanation& explanation);

// Whether the times of the first device's layers were measured.
bool is_measured(const Explanation& explanation);
// The seconds of a layer of the first device: measured, if there are measurements; else predicted.
double seconds_of(const Explanation& explanation, std::size_t layer);
// The layers of the first device that do something, the slowest first.
std::vector<std::size_t> slowest_first(const Explanation& explanation);

// The bound that limits most of the first device's time (measured, if there are measurements), and its share.
struct BoundShare {
  cost::Bound bound = cost::Bound::none;
  double share = 0;
};
BoundShare largest_bound(const Explanation& explanation);

}  // namespace tessera::report
