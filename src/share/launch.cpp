#include "share/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "share/control_group.h"

namespace tessera::share {
namespace {

// nice has a ratio of 1.25 of processor time a step.
int nice_of(double weight) {
  return std::clamp(static_cast<int>(std::lround(-std::log(weight) / std::log(1.25))), -20, 19);
}

std::string schedule_without_group(const lease::JobDescription& job) {
  if (job.priority == Priority::background) {
    const sched_param none{};
    if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return "by SCHED_IDLE";
    setpriority(PRIO_PROCESS, 0, 19);
    return "by nice 19";
  }
  const int nice = nice_of(job.weight);
  if (nice == 0) return "as any program";
  if (setpriority(PRIO_PROCESS, 0, nice) == 0) return fmt::format("by nice {}", nice);
  return fmt::format("as any program (nice {} is not permitted)", nice);
}

void set_variable(const char* name, const std::string& value) {
  if (value.empty()) unsetenv(name);
  else setenv(name, value.c_str(), 1);
}

}  // namespace

std::string become_job(const lease::JobDescription& job) {
  set_variable(lease::kSocketVariable, std::filesystem::absolute(job.socket).string());
  set_variable(lease::kClassVariable, lease::name_of(job.priority));
  set_variable(lease::kNameVariable, job.name);
  set_variable(lease::kWeightVariable, fmt::format("{}", job.weight));
  set_variable(lease::kGoalVariable, job.goal_ns > 0 ? fmt::format("{}", 1e-6 * static_cast<double>(job.goal_ns)) : "");
  set_variable(lease::kMemoryVariable, job.memory_bytes > 0 ? fmt::format("{}", job.memory_bytes) : "");
  set_variable(lease::kHardCoresVariable, job.hard_cores > 0 ? fmt::format("{}", job.hard_cores) : "");
  set_variable(lease::kTrustVariable, fmt::format("{}", fmt::join(job.trusted, ",")));
  const GroupLimits limits{
      .weight = job.weight, .idle = job.priority == Priority::background, .quota_cores = job.hard_cores};
  const std::optional<std::string> refused = join_group(limits);
  if (!refused)
    return fmt::format("scheduled by a control group ({}{})", limits.idle ? "when others are idle" : "by its weight",
                       limits.quota_cores > 0 ? fmt::format(", at most {:.3g} cores", limits.quota_cores) : "");
  std::string how = fmt::format("scheduled {}, since {}", schedule_without_group(job), *refused);
  if (job.hard_cores > 0) how += "; only a Tessera program keeps to the hard share";
  return how;
}

void execute(const std::vector<std::string>& command) {
  require(!command.empty(), ErrorKind::invalid_argument, "there is no command to run; give one after --");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  fail(errno == ENOENT ? ErrorKind::not_found : ErrorKind::failed, "cannot run '{}': {}", command.front(),
       std::strerror(errno));
}

}  // namespace tessera::share
