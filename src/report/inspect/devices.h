// The devices of this machine as a table for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tessera/device.h"

namespace tessera::report {

// One paragraph per device, and the forms in which others are named.
std::string devices_text(const std::vector<DeviceDescription>& devices);
// {"devices": […], "names": […]}; the members of a device are those of DeviceDescription.
std::string devices_json(const std::vector<DeviceDescription>& devices);

}  // namespace tessera::report
