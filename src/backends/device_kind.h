// Kinds of devices: how the instances that this machine has are found and named.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends {

struct KindOfDevices {
  std::string_view name;  // "cpu"
  std::string_view form;  // how the instances are named, for people: "cpu", "simulated:PROFILE"
  // The instances that there are, by ordinal: none, one or several. Each call returns at least those of earlier calls.
  std::vector<const Device*> (*enumerate)();
  // Returns the instance of a name that begins with the kind's and a colon, or is the kind's alone. Throws
  // Error(invalid_argument) that says what is wrong with the name. Null: instances are named by their ordinals.
  const Device& (*find)(std::string_view name) = nullptr;
};

// The instances of all kinds, in their order.
std::vector<const Device*> devices_of(std::span<const KindOfDevices> kinds);

// Returns the device that the name denotes: "KIND" (its first instance), "KIND:ORDINAL", "KIND:…" as the kind defines
// it, or the UUID of an instance. Throws Error(invalid_argument), which lists the forms of names.
const Device& find_device(std::span<const KindOfDevices> kinds, std::string_view name);

}  // namespace tessera::backends
