// The devices of this build.
#pragma once

#include <span>
#include <string_view>

#include "backends/backend.h"

namespace tessera::backends {

// Those that need no more than a name.
std::span<const Device* const> all_devices();
// How the names of simulated devices, of which there is any number, are written.
inline constexpr std::string_view kSimulatedDevices = "simulated:PROFILE";
// Throws Error(invalid_argument) listing the devices there are, and as simulated::parse_options does for the name of a
// simulated device.
const Device& find_device(std::string_view name);

}  // namespace tessera::backends
