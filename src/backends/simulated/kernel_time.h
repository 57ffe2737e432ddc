// How long a kernel takes on the device that is simulated, by the cost model.
#pragma once

#include <cstdint>

#include "cost/profile.h"
#include "ops/core/op.h"

namespace tessera::backends::simulated {

// Nanoseconds without the launch. The same as `tessera explain --device` says for the node, less its overhead.
std::int64_t kernel_time_ns(const ops::NodeView& view, const cost::DeviceProfile& profile);

}  // namespace tessera::backends::simulated
