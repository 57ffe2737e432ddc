// The profile that the name of a device or of a profile stands for.
#pragma once

#include <optional>
#include <string>

#include "cost/profile.h"

namespace tessera::report {

struct NamedProfile {
  cost::DeviceProfile profile;
  // For a device whose rates `tessera calibrate` measures: whether it was run on this machine.
  std::optional<bool> is_measured;
};

// A device of this machine, by its name or UUID, has its own rates: those that were measured (calibration.h) or those
// that it states. Any other name is that of a built-in profile or the path of a .toml file; throws as
// cost::load_profile does.
NamedProfile load_device_profile(const std::string& name);

}  // namespace tessera::report
