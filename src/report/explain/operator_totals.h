// What the operators of a model take together, by type.
#pragma once

#include <string>
#include <vector>

#include "report/explain/explain.h"

namespace tessera::report {

struct OperatorTotal {
  std::string op;
  std::int64_t count = 0;
  double seconds = 0;           // predicted
  double measured_seconds = 0;  // 0 where nothing was measured
  double operations = 0, bytes = 0;
};

// Of the first device, the type that takes the longest first: as measured where it was measured, else as predicted.
// Operators that do nothing (views) are not counted.
std::vector<OperatorTotal> operator_totals(const Explanation& explanation);

// The times of the first device's layers were measured.
bool is_measured(const Explanation& explanation);
// Seconds of a layer of the first device: measured where they were measured, else predicted.
double seconds_of(const Explanation& explanation, std::size_t layer);
// The layers of the first device that do something, the slowest first.
std::vector<std::size_t> slowest_first(const Explanation& explanation);

// What most of the time of the first device goes to, by the time that was measured where it was.
struct BoundShare {
  cost::Bound bound = cost::Bound::none;
  double share = 0;
};
BoundShare largest_bound(const Explanation& explanation);

}  // namespace tessera::report
