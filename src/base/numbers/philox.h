// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011). Equal (seed, stream, index) always give the same number, so a run can be repeated, split and resumed exactly.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace tessera::base {

inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// A stream of random numbers; a copy goes on from the same position.
class Philox {
 public:
  explicit Philox(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint64_t seed() const { return seed_; }
  std::uint64_t stream() const { return stream_; }

  std::uint32_t next_u32() {
    if (used_ == 4) {
      block_ = philox4x32({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32),
                           static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                          {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
      ++position_;
      used_ = 0;
    }
    return block_[static_cast<std::size_t>(used_++)];
  }
  std::uint64_t next_u64() {
    const std::uint64_t high = next_u32();
    return (high << 32) | next_u32();
  }
  // Uniform in [0, 1) with 53 random bits.
  double next_uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }
  // Standard normal by Box-Muller.
  double next_normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - next_uniform()));
    return radius * std::cos(6.283185307179586 * next_uniform());
  }
  // Uniform in [low, high], both included.
  std::int64_t next_integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (range == 0 ? next_u64() : next_u64() % range));
  }

 private:
  std::uint64_t seed_, stream_, position_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

// The `index`th number, from 0, that next_uniform() of a new Philox(seed, stream) would give.
inline double philox_uniform_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t position = index / 2;
  const auto block = philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::size_t half = index % 2 * 2;
  return static_cast<double>(((std::uint64_t{block[half]} << 32) | block[half + 1]) >> 11) * 0x1p-53;
}

}  // namespace tessera::base
