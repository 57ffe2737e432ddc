#include "backends/device_kind.h"

#include <algorithm>
#include <charconv>

#include "backends/device_properties.h"
#include "base/error.h"

namespace tessera::backends {
namespace {

bool is_of_kind(std::string_view name, std::string_view kind) {
  return name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == ':');
}

// The instance of a name "KIND" or "KIND:ORDINAL".
const Device& find_by_ordinal(const KindOfDevices& kind, std::string_view name) {
  const std::vector<const Device*> instances = kind.enumerate();
  require(!instances.empty(), ErrorKind::invalid_argument, "device '{}': this machine has none of kind '{}'", name,
          kind.name);
  if (name.size() == kind.name.size()) return *instances.front();
  const std::string_view text = name.substr(kind.name.size() + 1);
  std::size_t ordinal = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  require(error == std::errc() && end == text.data() + text.size() && !text.empty(), ErrorKind::invalid_argument,
          "device '{}': '{}' is not the number of a device; expected {}:N with N from 0 to {}", name, text, kind.name,
          instances.size() - 1);
  require(ordinal < instances.size(), ErrorKind::invalid_argument,
          "there is no device '{}': this machine has {} of kind '{}', numbered from 0", name, instances.size(),
          kind.name);
  return *instances[ordinal];
}

}  // namespace

std::vector<const Device*> devices_of(std::span<const KindOfDevices> kinds) {
  std::vector<const Device*> devices;
  for (const KindOfDevices& kind : kinds) {
    const std::vector<const Device*> instances = kind.enumerate();
    devices.insert(devices.end(), instances.begin(), instances.end());
  }
  return devices;
}

const Device& find_device(std::span<const KindOfDevices> kinds, std::string_view name) {
  std::string forms;
  for (const KindOfDevices& kind : kinds) {
    if (is_of_kind(name, kind.name)) return kind.find != nullptr ? kind.find(name) : find_by_ordinal(kind, name);
    forms.append(forms.empty() ? "" : ", ").append(kind.form);
  }
  for (const Device* device : devices_of(kinds)) {
    if (!name.empty() && device->properties().uuid == name) return *device;
  }
  fail(ErrorKind::invalid_argument, "there is no device '{}'; devices: {}", name, forms);
}

}  // namespace tessera::backends
