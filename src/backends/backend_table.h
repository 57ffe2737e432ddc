// The devices of this build.
#pragma once

#include <span>
#include <string_view>

#include "backends/backend.h"

namespace tessera::backends {

// The devices that need no options: all but the simulated ones.
std::span<const Device* const> all_devices();
// The form of the names of simulated devices, of which there are arbitrarily many.
inline constexpr std::string_view kSimulatedDevices = "simulated:PROFILE";
// Returns the device of that name. Throws Error(invalid_argument), which lists the devices; for the name of a simulated
// device throws as simulated::parse_options does.
const Device& find_device(std::string_view name);

}  // namespace tessera::backends
