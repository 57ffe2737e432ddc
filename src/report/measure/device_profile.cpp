#include "report/measure/device_profile.h"

#include "backends/backend_table.h"
#include "backends/device_properties.h"
#include "report/measure/calibration.h"

namespace tessera::report {

NamedProfile load_device_profile(const std::string& name) {
  for (const backends::Device* device : backends::all_devices()) {
    const backends::DeviceProperties& properties = device->properties();
    if (name.empty() || (device->name() != name && properties.uuid != name)) continue;
    if (properties.is_calibrated) {
      CpuProfile cpu = load_cpu_profile();
      return {std::move(cpu.profile), cpu.measured};
    }
    if (properties.profile != nullptr) return {*properties.profile, std::nullopt};
  }
  return {cost::load_profile(name), std::nullopt};
}

}  // namespace tessera::report
