#include "tessera/device.h"

#include <fmt/format.h>

#include "backends/backend_table.h"
#include "backends/device_properties.h"
#include "base/cpu_info.h"
#include "cost/profile.h"

namespace tessera {
namespace {

DeviceDescription describe(const backends::Device& device) {
  const backends::DeviceProperties& properties = device.properties();
  const backends::ComputeCapability& capability = properties.compute_capability;
  DeviceDescription description;
  description.name = device.name();
  description.product = properties.product;
  description.uuid = properties.uuid;
  description.instruction_set = properties.instruction_set;
  description.ordinal = properties.ordinal;
  description.computes_in_host_memory = device.is_host();
  description.memory_bytes = properties.memory_bytes;
  if (capability != backends::ComputeCapability{})
    description.compute_capability = fmt::format("{}.{}", capability.major, capability.minor);
  description.multiprocessors = properties.multiprocessors;
  description.warp_size = properties.warp_size;
  description.shared_memory_per_block_bytes = properties.shared_memory_per_block_bytes;
  description.shared_memory_per_multiprocessor_bytes = properties.shared_memory_per_multiprocessor_bytes;
  description.l2_bytes = properties.l2_bytes;
  description.registers_per_multiprocessor = properties.registers_per_multiprocessor;
  description.max_threads_per_block = properties.max_threads_per_block;
  description.copy_engines = properties.copy_engines;
  description.native_products = backends::names_of(properties.native_products);
  if (properties.profile != nullptr) description.profile = properties.profile->name;
  return description;
}

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const backends::KindOfDevices& kind : backends::device_kinds()) names.emplace_back(kind.form);
  return names;
}

std::vector<DeviceDescription> devices() {
  std::vector<DeviceDescription> descriptions;
  for (const backends::Device* device : backends::all_devices()) descriptions.push_back(describe(*device));
  return descriptions;
}

DeviceDescription describe_device(const std::string& name) {
  return describe(backends::find_device(name));
}

std::string describe_machine() {
  const base::CpuInfo& info = base::cpu_info();
  return fmt::format("{}, {}, {} core{}", info.model_name, base::isa_name(info), info.usable_cores,
                     info.usable_cores == 1 ? "" : "s");
}

}  // namespace tessera
