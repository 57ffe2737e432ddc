// The devices of this build.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "backends/device_kind.h"

namespace tessera::backends {

// The kinds of devices that this build knows, whether this machine has any of them or not.
std::span<const KindOfDevices> device_kinds();
// The devices of this machine, and the simulated ones that this process has used so far.
std::vector<const Device*> all_devices();
// Returns the device of that name or UUID (see device_kind.h). Throws Error(invalid_argument), which lists the forms of
// names; for the name of a simulated device throws as simulated::parse_options does.
const Device& find_device(std::string_view name);

}  // namespace tessera::backends
