// The random decisions of an obfuscation: equal seeds give equal files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/numbers/philox.h"

namespace tessera::protect {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

  std::uint64_t next() {
    const std::array<std::uint32_t, 4> words = base::philox4x32({count_, 0, 0x7E55E7A, 0}, key_);
    ++count_;
    return words[0] | std::uint64_t{words[1]} << 32;
  }
  // In [0, count); count > 0.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) < probability * static_cast<double>(std::uint64_t{1} << 53);
  }
  std::vector<std::size_t> permutation(std::size_t count) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
  }
  // 16 hexadecimal digits.
  std::string word();

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t count_ = 0;
};

}  // namespace tessera::protect
