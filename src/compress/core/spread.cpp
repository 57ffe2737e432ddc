#include "compress/core/spread.h"

#include <algorithm>

#include "base/numbers/philox.h"

namespace tessera::compress {

std::vector<std::int64_t> spread_positions(std::int64_t all, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> taken;
  base::Philox random(seed);
  count = std::min(all, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * all / count, end = (i + 1) * all / count;
    const auto within = static_cast<std::int64_t>(random.next_uniform() * static_cast<double>(end - begin));
    taken.push_back(std::min(end - 1, begin + within));
  }
  return taken;
}

}  // namespace tessera::compress
