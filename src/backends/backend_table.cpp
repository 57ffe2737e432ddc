#include "backends/backend_table.h"

#include <array>

#include "backends/cpu/cpu_device.h"
#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "backends/simulated/simulated_device.h"
#include "base/error.h"

namespace tessera::backends {

std::span<const Device* const> all_devices() {
  static const std::array<const Device*, 3> devices{&cpu_device(), &reference_device(), &null_device()};
  return devices;
}

const Device& find_device(std::string_view name) {
  if (simulated::is_simulated(name)) return simulated::find_simulated_device(name, {cpu_device(), reference_device()});
  std::string names;
  for (const Device* device : all_devices()) {
    if (device->name() == name) return *device;
    names += (names.empty() ? "" : ", ") + std::string(device->name());
  }
  fail(ErrorKind::invalid_argument, "there is no device '{}'; devices: {}, {}", name, names, kSimulatedDevices);
}

}  // namespace tessera::backends
