#include "tessera/device.h"

#include <fmt/format.h>

#include "backends/backend_table.h"
#include "base/cpu_info.h"

namespace tessera {

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const backends::Device* device : backends::all_devices()) names.emplace_back(device->name());
  names.emplace_back(backends::kSimulatedDevices);
  return names;
}

std::string describe_machine() {
  const base::CpuInfo& info = base::cpu_info();
  return fmt::format("{}, {}, {} core{}", info.model_name, base::isa_name(info), info.usable_cores,
                     info.usable_cores == 1 ? "" : "s");
}

}  // namespace tessera
