// Estimates the cost of a graph on a device without making a plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cost/profile.h"
#include "tessera/optimise.h"

namespace tessera::report {

// Returns a function that predicts as explanations do (see explain.h), with the kernels that device `device` has for
// the nodes. Open dimensions of inputs have the sizes in `dims`, by their names in runtime/session/assumed_dims.h, or
// 1. The cost of a graph whose types cannot be inferred with these sizes is unknown.
GraphMeasure graph_measure(const cost::DeviceProfile& profile, const std::string& device,
                           const std::map<std::string, std::int64_t>& dims = {});

}  // namespace tessera::report
