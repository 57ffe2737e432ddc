// Predicted quantities as people read them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/units.h"

namespace tessera::report {

inline std::string time_text(double seconds) { return base::format_duration_ns(static_cast<std::int64_t>(seconds * 1e9)); }
inline std::string bytes_text(double bytes) { return base::format_bytes(static_cast<std::int64_t>(bytes)); }

inline std::string percent(double share) { return fmt::format("{:.{}f}%", share * 100, share < 0.095 ? 1 : 0); }
// "-12%"; nothing from nothing.
inline std::string change_text(double from, double to) { return from > 0 ? fmt::format("{:+.0f}%", (to / from - 1) * 100) : std::string(); }

}  // namespace tessera::report
