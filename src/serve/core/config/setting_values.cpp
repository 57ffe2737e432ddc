#include "serve/core/config/setting_values.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace tessera::serve {
namespace {

constexpr double kMostGoalMs = 1e9, kMostMemoryMib = 1e9, kMostThreads = 1024;

}  // namespace

Priority priority_of(const std::string& name, const std::string& where) {
  if (name == "realtime") return Priority::realtime;
  if (name == "standard") return Priority::standard;
  if (name == "background") return Priority::background;
  fail(ErrorKind::invalid_argument, "'{}' in {} is no priority, expected realtime, standard or background", name,
       where);
}

double setting_within(double number, double most, std::string_view key, const std::string& where) {
  require(number >= 0 && number <= most, ErrorKind::invalid_argument, "'{}' in {} is {}, expected 0 to {}", key, where,
          number, most);
  return number;
}

double number_of(const std::string& text, const std::string& key, const std::string& where) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 0 && std::isfinite(number),
          ErrorKind::invalid_argument, "'{}' in {} is '{}', expected a number", key, where, text);
  return number;
}

std::int64_t version_of(const std::string& text, const std::string& where) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  require(error == std::errc() && end == text.data() + text.size() && version > 0, ErrorKind::invalid_argument,
          "'{}' has a share in {}, but is no version: expected a number above 0", text, where);
  return version;
}

std::int64_t goal_ns_of(double goal_ms, const std::string& where) {
  return static_cast<std::int64_t>(setting_within(goal_ms, kMostGoalMs, "goal_ms", where) * 1e6);
}

std::int64_t memory_bytes_of(double mib, const std::string& where) {
  return static_cast<std::int64_t>(setting_within(mib, kMostMemoryMib, "memory_limit_mib", where)) << 20;
}

int threads_of(double threads, const std::string& where) {
  return static_cast<int>(setting_within(threads, kMostThreads, "threads", where));
}

}  // namespace tessera::serve
