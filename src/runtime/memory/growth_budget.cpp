#include "runtime/memory/growth_budget.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::runtime {
namespace {

// Carried values are added up in the first iterations, whose sizes may double, and then once in so many.
constexpr std::int64_t kFirst = 64, kInterval = 64;
// Iterations after which the growth of carried values is taken to go on.
constexpr std::int64_t kForecastAfter = 1024;

std::int64_t held_bytes(const Value& value) {
  if (!value.has_value()) return 0;
  if (value.is_tensor()) return value.tensor().bytes();
  std::int64_t bytes = 0;
  for (const Value& element : value.elements()) bytes += static_cast<std::int64_t>(sizeof(Value)) + held_bytes(element);
  return bytes;
}

std::int64_t held_bytes(std::span<const Value> values) {
  std::int64_t bytes = 0;
  for (const Value& value : values) bytes += held_bytes(value);
  return bytes;
}

constexpr std::string_view kAdvice = "raise SessionOptions::max_growing_bytes (--growth-limit MIB) if that is meant";

}  // namespace

GrowthBudget::GrowthBudget(std::int64_t most_bytes, std::int64_t trips, std::span<const Value> initial)
    : most_bytes_(most_bytes), trips_(trips), initial_bytes_(held_bytes(initial)) {}

void GrowthBudget::check_forecast(std::int64_t done, double per_iteration, std::int64_t held) const {
  if (trips_ < 0) return;
  const double expected = static_cast<double>(held) + per_iteration * static_cast<double>(trips_ - done);
  require(expected <= static_cast<double>(most_bytes_), ErrorKind::over_budget,
          "the results of the loop hold {} after {} of {} iterations and would grow to {}, more than the {} that "
          "growing results may "
          "take; {}",
          base::format_bytes(held), done, trips_,
          base::format_bytes(static_cast<std::int64_t>(std::min(expected, 9e18))), base::format_bytes(most_bytes_),
          kAdvice);
}

void GrowthBudget::check(std::int64_t done, std::int64_t scan_bytes, std::span<const Value> carried) {
  if (done == 1) check_forecast(done, static_cast<double>(scan_bytes), scan_bytes);
  if (done > kFirst && done % kInterval != 0) return;
  const std::int64_t held = scan_bytes + std::max<std::int64_t>(0, held_bytes(carried) - initial_bytes_);
  require(held <= most_bytes_, ErrorKind::over_budget,
          "the results of the loop hold {} after {} iterations, more than the {} that growing results may take; {}",
          base::format_bytes(held), done, base::format_bytes(most_bytes_), kAdvice);
  if (done == kForecastAfter / 2) half_way_bytes_ = held;
  if (done == kForecastAfter && half_way_bytes_ > 0 && held > half_way_bytes_)
    check_forecast(done, static_cast<double>(held - half_way_bytes_) / (kForecastAfter / 2), held);
}

}  // namespace tessera::runtime
