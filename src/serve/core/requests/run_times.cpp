#include "serve/core/requests/run_times.h"

#include <algorithm>
#include <iterator>

namespace tessera::serve {
namespace {

constexpr double kLearningRate = 0.2;
constexpr std::int64_t kStaleNs = 500'000'000;

}  // namespace

void RunTimes::add(std::int64_t rows, std::int64_t run_ns, std::int64_t now_ns) {
  const bool counts_alone = is_stale(now_ns - run_ns);  // the run itself is no pause
  last_ns_ = now_ns;
  const auto [it, is_new] = run_ns_.emplace(rows, run_ns);
  if (is_new) return;
  if (counts_alone) it->second = run_ns;
  else it->second += static_cast<std::int64_t>(kLearningRate * static_cast<double>(run_ns - it->second));
}

std::int64_t RunTimes::predicted_ns(std::int64_t rows) const {
  if (run_ns_.empty()) return 0;
  const auto above = run_ns_.lower_bound(rows);
  if (above == run_ns_.begin()) return above->second;
  const auto below = std::prev(above);
  const std::int64_t in_proportion = below->second * rows / below->first;
  return above == run_ns_.end() ? in_proportion : std::min(above->second, in_proportion);
}

bool RunTimes::is_stale(std::int64_t now_ns) const {
  return now_ns - last_ns_ > kStaleNs;
}

}  // namespace tessera::serve
