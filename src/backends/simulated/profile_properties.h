// The hardware that a simulated device claims to be.
#pragma once

#include "backends/device_properties.h"
#include "backends/simulated/options.h"

namespace tessera::backends::simulated {

// As far as the profile says; `options` outlives the result. The ordinal is the option `number`.
DeviceProperties properties_of(const Options& options);

}  // namespace tessera::backends::simulated
