// The plots of an explanation.
#pragma once

#include <string>

#include "report/explain/explain.h"

namespace tessera::report {

// Each plot is written twice, for wide and for narrow screens; the style sheet shows one of the two.
//
// Operations per second over operations per byte, both axes logarithmic. Each layer of the first device is a mark whose
// area is its time; the roofs of all devices are lines. Layers without arithmetic are left out.
std::string roofline_plots(const Explanation& explanation);
// Bytes in use at each step of the plan, compared with the arena's size.
std::string memory_plots(const Explanation& explanation);

// The text for a layer's mark: name, time, bound, rates.
std::string layer_label(const Explanation& explanation, std::size_t device, std::size_t layer);

}  // namespace tessera::report
