// The search for the fewest layers that have to stay in float.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tessera::compress {

// The least number of layers, taken in order of a ranking, with which `holds` is true: found by doubling and bisection,
// as if more layers in float were never worse. `holds(all)` is taken for granted when nothing less holds.
std::size_t fewest_excluded(std::size_t all, const std::function<bool(std::size_t excluded)>& holds);

}  // namespace tessera::compress
