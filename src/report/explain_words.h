// Predicted quantities as people read them.
#pragma once

#include <string>

#include "base/units.h"

namespace tessera::report {

inline std::string time_text(double seconds) { return base::format_duration_ns(static_cast<std::int64_t>(seconds * 1e9)); }
inline std::string bytes_text(double bytes) { return base::format_bytes(static_cast<std::int64_t>(bytes)); }

}  // namespace tessera::report
