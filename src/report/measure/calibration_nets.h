// Nets for measurements that resemble no particular model: layers of many sizes in sequence, so that each kernel finds
// its data as in a real run, partly in caches and partly not.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tessera::report {

struct CalibrationNet {
  ir::Graph graph;         // types inferred, all shapes concrete, weights seeded
  bool quantised = false;  // layers between DequantizeLinear and QuantizeLinear
  bool products = true;    // whether it has layers with weights, which can be rounded to bfloat16
};

std::vector<CalibrationNet> calibration_nets();
// A net of operators whose tensors have only a few elements.
ir::Graph calibration_net_of_small_operators();

}  // namespace tessera::report
