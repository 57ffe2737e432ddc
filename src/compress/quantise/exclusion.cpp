#include "compress/quantise/exclusion.h"

#include <algorithm>

namespace tessera::compress {

std::size_t fewest_excluded(std::size_t all, const std::function<bool(std::size_t excluded)>& holds) {
  if (holds(0)) return 0;
  std::size_t fails = 0, good = std::min<std::size_t>(1, all);
  while (good < all && !holds(good)) {
    fails = good;
    good = std::min(2 * good, all);
  }
  while (good - fails > 1) {
    const std::size_t middle = fails + (good - fails) / 2;
    (holds(middle) ? good : fails) = middle;
  }
  return good;
}

}  // namespace tessera::compress
