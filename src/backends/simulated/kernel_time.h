// The time that a kernel takes on the simulated device, by the cost model.
#pragma once

#include <cstdint>

#include "cost/profile.h"
#include "ops/core/op.h"

namespace tessera::backends::simulated {

// Nanoseconds without the launch: as `tessera explain --device` reports for the node, less its overhead.
std::int64_t kernel_time_ns(const ops::NodeView& view, const cost::DeviceProfile& profile);

}  // namespace tessera::backends::simulated
