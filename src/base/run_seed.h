// The seed of a run, from which its random operators draw.
#pragma once

#include <cstdint>

#include "base/numbers/philox.h"

namespace tessera::base {

// The number of the run in its sequence, which is the lower half of its seed. Operators with a seed attribute of their
// own draw by this number alone, so that their draws repeat from session to session; other operators draw by the whole
// seed.
inline std::uint32_t run_number(std::uint64_t seed) {
  return static_cast<std::uint32_t>(seed);
}

inline std::uint64_t numbered_seed(std::uint32_t upper, std::uint32_t number) {
  return std::uint64_t{upper} << 32 | number;
}

// The seed of run `number` in the sequence of runs that begins with the seed `sequence`.
inline std::uint64_t seed_of_run(std::uint64_t sequence, std::uint32_t number) {
  const auto mixed = philox4x32(
      {static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32), 0, 0}, {0x7E55E7A, 1});
  return numbered_seed(mixed[0], number);
}

// The seed of one iteration of a loop in a run. Each half of it depends on the same half of `seed` alone.
inline std::uint64_t seed_of_iteration(std::uint64_t seed, std::uint64_t iteration) {
  const auto mix = [&](std::uint32_t half, std::uint32_t which) {
    return philox4x32({static_cast<std::uint32_t>(iteration), static_cast<std::uint32_t>(iteration >> 32), half, 0},
                      {0x7E55E7A, which})[0];
  };
  return numbered_seed(mix(static_cast<std::uint32_t>(seed >> 32), 2), mix(run_number(seed), 3));
}

}  // namespace tessera::base
