// Formats quantities for people: times in ns, µs, ms and s, sizes in KiB and MiB, rates in GB/s and GFLOP/s.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "base/numbers/units.h"
#include "cost/precision.h"

namespace tessera::report {

inline std::string time_text(double seconds) {
  return base::format_duration_ns(static_cast<std::int64_t>(seconds * 1e9));
}
inline std::string bytes_text(double bytes) {
  return base::format_bytes(static_cast<std::int64_t>(bytes));
}

// "8.2 GFLOP", "25.6 GB/s": the count with a metric prefix for `unit`.
inline std::string count_text(double count, std::string_view unit) {
  const std::string text = base::format_count(count);
  return fmt::format("{}{}{}", text, text.find(' ') == std::string::npos ? " " : "", unit);
}

// The unit of arithmetic: operations on integers are not floating-point operations.
inline std::string_view operation_unit(cost::Precision precision) {
  return precision == cost::Precision::int8 ? "OP" : "FLOP";
}
inline std::string operations_text(double operations, cost::Precision precision = cost::Precision::f32) {
  return count_text(operations, operation_unit(precision));
}
inline std::string rate_text(double per_second, cost::Precision precision = cost::Precision::f32) {
  return count_text(per_second, std::string(operation_unit(precision)) + "/s");
}

// "12%", "3.4%", "<0.1%".
inline std::string percent(double share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  return fmt::format("{:.{}f}%", share * 100, share < 0.095 ? 1 : 0);
}

// "-12%", "-0.3%", "same"; "" if `from` is 0.
inline std::string change_text(double from, double to) {
  if (from <= 0) return {};
  const double change = (to / from - 1) * 100;
  if (std::abs(change) < 0.05) return "same";
  return fmt::format("{:+.{}f}%", change, std::abs(change) < 0.95 ? 1 : 0);
}

}  // namespace tessera::report
