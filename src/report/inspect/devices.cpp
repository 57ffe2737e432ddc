#include "report/inspect/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/numbers/units.h"
#include "base/text.h"
#include "report/values/json_text.h"

namespace tessera::report {
namespace {

std::string sizes_text(const DeviceDescription& device) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, std::int64_t bytes) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", what, base::format_bytes(bytes)));
  };
  add(device.computes_in_host_memory ? "host memory" : "memory", device.memory_bytes);
  add("L2", device.l2_bytes);
  add("shared memory per block", device.shared_memory_per_block_bytes);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string units_text(const DeviceDescription& device) {
  if (device.multiprocessors == 0) return "";
  if (device.computes_in_host_memory)
    return fmt::format("{} core{}, {}", device.multiprocessors, device.multiprocessors == 1 ? "" : "s",
                       device.instruction_set);
  return fmt::format("{} multiprocessors{}{}, {} copy engines", device.multiprocessors,
                     device.compute_capability.empty() ? "" : ", compute capability ", device.compute_capability,
                     device.copy_engines);
}

nlohmann::json json_of(const DeviceDescription& device) {
  return {{"name", device.name},
          {"product", device.product},
          {"uuid", device.uuid},
          {"instruction_set", device.instruction_set},
          {"ordinal", device.ordinal},
          {"computes_in_host_memory", device.computes_in_host_memory},
          {"memory_bytes", device.memory_bytes},
          {"compute_capability", device.compute_capability},
          {"multiprocessors", device.multiprocessors},
          {"warp_size", device.warp_size},
          {"shared_memory_per_block_bytes", device.shared_memory_per_block_bytes},
          {"shared_memory_per_multiprocessor_bytes", device.shared_memory_per_multiprocessor_bytes},
          {"l2_bytes", device.l2_bytes},
          {"registers_per_multiprocessor", device.registers_per_multiprocessor},
          {"max_threads_per_block", device.max_threads_per_block},
          {"copy_engines", device.copy_engines},
          {"native_products", device.native_products},
          {"profile", device.profile}};
}

}  // namespace

std::string devices_text(const std::vector<DeviceDescription>& devices) {
  std::string text;
  const auto line = [&text](const char* title, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<9} {}\n", title, base::printable(value));
  };
  for (const DeviceDescription& device : devices) {
    text += base::printable(device.name) + "\n";
    line("product", device.product);
    line("units", units_text(device));
    line("sizes", sizes_text(device));
    line("products", device.native_products);
    line("uuid", device.uuid);
    line("profile", device.profile);
  }
  return text + fmt::format("names: {}\n", fmt::join(device_names(), ", "));
}

std::string devices_json(const std::vector<DeviceDescription>& devices) {
  nlohmann::json list = nlohmann::json::array();
  for (const DeviceDescription& device : devices) list.push_back(json_of(device));
  return json_text({{"devices", std::move(list)}, {"names", device_names()}}, 2);
}

}  // namespace tessera::report
