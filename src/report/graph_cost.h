// What a graph asks of a device, without a plan for it.
#pragma once

#include "cost/profile.h"
#include "tessera/optimise.h"

namespace tessera::report {

// Predicts as explanations do (see explain.h), with the kernels that device `device` has for the nodes; dimensions of inputs that are names
// count 1. A graph whose types cannot be inferred so is of unknown cost.
GraphMeasure graph_measure(const cost::DeviceProfile& profile, const std::string& device);

}  // namespace tessera::report
