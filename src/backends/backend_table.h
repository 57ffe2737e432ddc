// The devices of this build.
#pragma once

#include <span>
#include <string_view>

#include "backends/backend.h"

namespace tessera::backends {

std::span<const Device* const> all_devices();
// Throws Error(invalid_argument) listing the devices there are.
const Device& find_device(std::string_view name);

}  // namespace tessera::backends
