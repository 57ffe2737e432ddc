// Nets that are no model of anybody's: layers of many sizes behind one another, so that each kernel meets its data as
// in a real run, partly in caches and partly not.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::report {

struct CalibrationNet {
  ir::Graph graph;         // types inferred, all shapes concrete, weights seeded
  bool quantised = false;  // layers between DequantizeLinear and QuantizeLinear
  bool products = true;    // has layers with weights: they can be rounded to bfloat16
};

std::vector<CalibrationNet> calibration_nets();
// Operators whose tensors have a few elements.
ir::Graph calibration_net_of_small_operators();

}  // namespace tessera::report
