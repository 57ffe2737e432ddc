#include "lease/job_description.h"

#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "lease/trusted_daemon.h"

namespace tessera::lease {
namespace {

constexpr const char* kNames[kPriorities] = {"background", "standard", "realtime"};

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

double number(const char* name, double otherwise, double most) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  double value = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(code == std::errc() && end == text.data() + text.size() && value > 0 && value <= most,
          ErrorKind::invalid_argument, "{} expects a number above 0 and at most {}, got '{}'", std::string_view(name),
          most, text);
  return value;
}

}  // namespace

Priority parse_priority(const std::string& name) {
  for (int i = 0; i < kPriorities; ++i) {
    if (name == kNames[i]) return static_cast<Priority>(i);
  }
  fail(ErrorKind::invalid_argument, "there is no class '{}'; the classes are background, standard and realtime", name);
}

const char* name_of(Priority priority) {
  return kNames[static_cast<std::size_t>(priority)];
}

std::optional<JobDescription> job_by_environment() {
  JobDescription job{.socket = variable(kSocketVariable), .name = variable(kNameVariable)};
  if (job.socket.empty()) return std::nullopt;
  if (job.name.empty()) job.name = fmt::format("process {}", getpid());
  if (const std::string name = variable(kClassVariable); !name.empty()) job.priority = parse_priority(name);
  job.weight = number(kWeightVariable, 1, 1e6);
  job.goal_ns = std::llround(number(kGoalVariable, 0, 1e9) * 1e6);
  job.memory_bytes = std::llround(number(kMemoryVariable, 0, 0x1p60));
  job.hard_cores = number(kHardCoresVariable, 0, 1e6);
  job.trusted = trusted_by_environment();
  return job;
}

}  // namespace tessera::lease
