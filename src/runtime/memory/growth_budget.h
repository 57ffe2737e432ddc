// A limit on what the results of a Loop may grow to, so that one of 2^40 iterations ends in an error and not in swap.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/tensor.h"

namespace tessera::runtime {

// The budget of one Loop. Carried values count with what they hold beyond the initial ones, scan outputs with all.
class GrowthBudget {
 public:
  // `trips`: how many iterations there will be, or -1 where a condition may end them sooner.
  GrowthBudget(std::int64_t most_bytes, std::int64_t trips, std::span<const Value> initial);

  // After each of the iterations; `done` of them. Throws Error(over_budget) where the results hold more than the
  // budget, and where those of all iterations surely or, after a thousand iterations that all added something,
  // apparently will.
  void check(std::int64_t done, std::int64_t scan_bytes, std::span<const Value> carried);

 private:
  void check_forecast(std::int64_t done, double per_iteration, std::int64_t held) const;

  std::int64_t most_bytes_, trips_, initial_bytes_;
  std::int64_t half_way_bytes_ = 0;
};

}  // namespace tessera::runtime
