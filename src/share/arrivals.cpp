#include <algorithm>
#include <cmath>

#include "base/numbers/philox.h"
#include "share/simulation.h"

namespace tessera::share {

std::vector<std::int64_t> arrival_times(const Arrivals& arrivals, std::uint64_t seed, std::uint64_t stream) {
  if (arrivals.kind == Arrivals::Kind::replay) return arrivals.times_ns;
  base::Philox random(seed, stream);
  std::vector<std::int64_t> times;
  const std::int64_t at_once = arrivals.kind == Arrivals::Kind::bursts ? arrivals.burst : 1;
  const double mean_ns = 1e9 / arrivals.rate * static_cast<double>(at_once);
  double now_ns = static_cast<double>(arrivals.start_ns);
  while (static_cast<std::int64_t>(times.size()) < arrivals.requests) {
    now_ns -= std::log(1 - random.next_uniform()) * mean_ns;
    for (std::int64_t i = 0; i < at_once && static_cast<std::int64_t>(times.size()) < arrivals.requests; ++i)
      times.push_back(static_cast<std::int64_t>(now_ns));
  }
  return times;
}

std::int64_t percentile(const std::vector<std::int64_t>& ascending, double part) {
  if (ascending.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(ascending.size()));
  return ascending[std::min(ascending.size() - 1, static_cast<std::size_t>(std::max(rank - 1, 0.0)))];
}

}  // namespace tessera::share
