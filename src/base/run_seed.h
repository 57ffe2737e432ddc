// The seed of a run, from which its random operators draw.
#pragma once

#include <cstdint>

#include "base/numbers/philox.h"

namespace tessera::base {

// The lower half of a seed is the number of the run in its sequence. It alone decides what operators with a seed of
// their own draw, so that their draws repeat from session to session. Other operators draw by the whole seed.
inline std::uint32_t run_number(std::uint64_t seed) {
  return static_cast<std::uint32_t>(seed);
}

inline std::uint64_t numbered_seed(std::uint32_t upper, std::uint32_t number) {
  return std::uint64_t{upper} << 32 | number;
}

// The seed of the run of this number in the sequence of runs that `sequence` starts.
inline std::uint64_t seed_of_run(std::uint64_t sequence, std::uint32_t number) {
  const auto mixed = philox4x32(
      {static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(sequence >> 32), 0, 0}, {0x7E55E7A, 1});
  return numbered_seed(mixed[0], number);
}

// The seed of one iteration of a loop in a run. Each half depends on its counterpart alone.
inline std::uint64_t seed_of_iteration(std::uint64_t seed, std::uint64_t iteration) {
  const auto mix = [&](std::uint32_t half, std::uint32_t which) {
    return philox4x32({static_cast<std::uint32_t>(iteration), static_cast<std::uint32_t>(iteration >> 32), half, 0},
                      {0x7E55E7A, which})[0];
  };
  return numbered_seed(mix(static_cast<std::uint32_t>(seed >> 32), 2), mix(run_number(seed), 3));
}

}  // namespace tessera::base
