#include "base/numbers/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tessera::base {
namespace {

template <std::size_t N>
std::string scale(double value, double factor, const std::array<const char*, N>& units, int decimals) {
  std::size_t unit = 0;
  while (std::fabs(value) >= factor && unit + 1 < N) {
    value /= factor;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.{}f}{}", value, decimals, units[unit]);
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  return scale(static_cast<double>(bytes), 1024, std::array{" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, 1);
}

std::string format_count(double count) {
  return scale(count, 1000, std::array{"", " k", " M", " G", " T", " P"}, 1);
}

std::string format_duration_ns(std::int64_t ns) {
  return scale(static_cast<double>(ns), 1000, std::array{" ns", " µs", " ms", " s"}, 2);
}

}  // namespace tessera::base
