// What a graph asks of a device, without a plan for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cost/profile.h"
#include "tessera/optimise.h"

namespace tessera::report {

// Predicts as explanations do (see explain.h), with the kernels that device `device` has for the nodes; open dimensions
// of inputs are those in `dims`, by their names in runtime/session/assumed_dims.h, or 1. A graph whose types cannot be
// inferred so is of unknown cost.
GraphMeasure graph_measure(const cost::DeviceProfile& profile, const std::string& device,
                           const std::map<std::string, std::int64_t>& dims = {});

}  // namespace tessera::report
