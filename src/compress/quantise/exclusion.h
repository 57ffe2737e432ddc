// Searches for the smallest set of layers that have to stay in float.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tessera::compress {

// The least number of layers, taken in the order of a ranking, for which `holds` returns true. Searches by doubling and
// bisection, assuming that more layers in float are never worse, and that holds(all) is true.
std::size_t fewest_excluded(std::size_t all, const std::function<bool(std::size_t excluded)>& holds);

}  // namespace tessera::compress
