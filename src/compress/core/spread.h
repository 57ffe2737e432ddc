// Which of many things are looked at where all would take too long.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::compress {

// Positions in [0, all), in their order: a random one of each of `count` equal parts, or all where there are no more.
std::vector<std::int64_t> spread_positions(std::int64_t all, std::int64_t count, std::uint64_t seed);

}  // namespace tessera::compress
