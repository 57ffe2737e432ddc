#include "train/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/numbers/philox.h"

namespace tessera::train {

std::vector<std::int64_t> epoch_order(std::int64_t size, bool shuffle, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  base::Philox numbers(seed, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(numbers.next_integer(0, static_cast<std::int64_t>(i) - 1))]);
  return order;
}

std::vector<std::int64_t> weighted_order(const std::vector<double>& weights, std::uint64_t seed, std::int64_t epoch) {
  std::vector<double> ends(weights.size());
  std::partial_sum(weights.begin(), weights.end(), ends.begin());
  // Because of rounding, a draw may fall behind the last sample of positive weight, which is taken then.
  const auto last = std::ranges::find_if(weights.rbegin(), weights.rend(), [](double weight) { return weight > 0; });
  base::Philox numbers(seed, static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order(weights.size());
  for (std::int64_t& sample : order) {
    const double drawn = numbers.next_uniform() * ends.back();
    sample = std::min<std::int64_t>(std::ranges::upper_bound(ends, drawn) - ends.begin(), weights.rend() - last - 1);
  }
  return order;
}

}  // namespace tessera::train
