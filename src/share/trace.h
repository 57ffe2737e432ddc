// A trace as a file: which jobs come when, to share a device.
#pragma once

#include <string>
#include <string_view>

#include "cost/profile.h"
#include "share/simulation.h"

namespace tessera::share {

// From TOML text (docs/sharing.md lists the keys); nets become steps of the device. `where` names the text in messages.
// Throws Error(invalid_argument).
Trace parse_trace(std::string_view text, const std::string& where, const cost::DeviceProfile& profile);

// "2GiB", "512 MiB", "100MB", or bytes. Throws Error(invalid_argument) that names `where`.
std::int64_t parse_bytes(const std::string& text, const std::string& where);
// "realtime". Throws Error(invalid_argument) listing the classes.
Priority parse_class(const std::string& name, const std::string& where);
std::string_view name_of(Priority priority);

}  // namespace tessera::share
