// Chooses some of many things where looking at all of them would take too long.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compress {

// Positions in [0, all) in ascending order: a random one from each of `count` equal parts, or all of them if there are
// no more than `count`.
std::vector<std::int64_t> spread_positions(std::int64_t all, std::int64_t count, std::uint64_t seed);

}  // namespace tessera::compress
