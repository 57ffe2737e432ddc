// The plots of an explanation.
#pragma once

#include <string>

#include "report/explain/explain.h"

namespace tessera::report {

// Each plot once for wide and once for narrow screens; the style shows one of both.
// Operations per second over operations per byte, both logarithmic: a mark a layer of the first device, its area its
// time, and the roofs of all devices. Layers without arithmetic have no place in it.
std::string roofline_plots(const Explanation& explanation);
// Bytes in use at each step of the plan, below the arena's size.
std::string memory_plots(const Explanation& explanation);

// What a person reads of a layer: name, time, bound, rates.
std::string layer_label(const Explanation& explanation, std::size_t device, std::size_t layer);

}  // namespace tessera::report
