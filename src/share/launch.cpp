#include "share/launch.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cpu_info.h"
#include "base/error.h"

namespace tessera::share {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGroupPrefix = "tessera-job-";

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The kernel takes or refuses a setting when it is written.
bool write_setting(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool has_word(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  std::string each;
  while (words >> each) {
    if (each == word) return true;
  }
  return false;
}

void remove_empty_groups(const fs::path& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    // Only groups without processes can be removed.
    if (entry.path().filename().string().starts_with(kGroupPrefix)) rmdir(entry.path().c_str());
  }
}

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

std::optional<std::string> join_group(const std::string& root, const std::string& own_path, const GroupLimits& limits) {
  const fs::path parent = fs::path(root + own_path);
  if (!has_word(read_text(parent / "cgroup.controllers"), "cpu"))
    return fmt::format("the control group '{}' has no cpu controller", parent.string());
  if (!has_word(read_text(parent / "cgroup.subtree_control"), "cpu") &&
      !write_setting(parent / "cgroup.subtree_control", "+cpu"))
    return fmt::format("the cpu controller cannot be enabled below '{}'", parent.string());
  remove_empty_groups(parent);
  const fs::path group = parent / fmt::format("{}{}", kGroupPrefix, getpid());
  std::error_code error;
  if (!fs::create_directory(group, error))
    return fmt::format("no group can be made in '{}': {}", parent.string(), error.message());
  // cpu.weight has 100 for 1, and ranges from 1 to 10000.
  const long weight = std::clamp(std::lround(100 * limits.weight), 1L, 10000L);
  constexpr long kPeriodUs = 20'000;
  bool done = limits.idle ? write_setting(group / "cpu.idle", "1")
                          : write_setting(group / "cpu.weight", std::to_string(weight));
  if (limits.quota_cores > 0)
    done = done && write_setting(group / "cpu.max",
                                 fmt::format("{} {}", std::lround(kPeriodUs * limits.quota_cores), kPeriodUs));
  done = done && write_setting(group / "cgroup.procs", std::to_string(getpid()));
  if (done) return std::nullopt;
  rmdir(group.c_str());
  return fmt::format("the group '{}' takes no settings or no process", group.string());
}

std::optional<std::string> join_group(const GroupLimits& limits) {
  std::ifstream mounts("/proc/self/mounts"), groups("/proc/self/cgroup");
  std::string line, root, own;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string device, place, type;
    if (fields >> device >> place >> type && type == "cgroup2") root = place;
  }
  while (std::getline(groups, line)) {
    if (line.starts_with("0::")) own = line.substr(3);
  }
  if (root.empty() || own.empty()) return "this system has no cgroup v2";
  return join_group(root, own == "/" ? "" : own, limits);
}

std::string become_job(const lease::JobDescription& job) {
  set_variable(lease::kSocketVariable, fs::absolute(job.socket).string());
  set_variable(lease::kClassVariable, lease::name_of(job.priority));
  set_variable(lease::kNameVariable, job.name);
  set_variable(lease::kWeightVariable, fmt::format("{}", job.weight));
  set_variable(lease::kGoalVariable, job.goal_ns > 0 ? fmt::format("{}", 1e-6 * static_cast<double>(job.goal_ns)) : "");
  set_variable(lease::kMemoryVariable, job.memory_bytes > 0 ? fmt::format("{}", job.memory_bytes) : "");
  set_variable(lease::kHardShareVariable, job.hard_share > 0 ? fmt::format("{}", 100 * job.hard_share) : "");
  const GroupLimits limits{.weight = job.weight,
                           .idle = job.priority == Priority::background,
                           .quota_cores = job.hard_share * base::cpu_info().usable_cores};
  const std::optional<std::string> refused = join_group(limits);
  if (!refused) return fmt::format("scheduled by a control group ({})", limits.idle ? "cpu.idle" : "cpu.weight");
  std::string how = fmt::format("scheduled {}, since {}", schedule_without_group(job), *refused);
  if (job.hard_share > 0) how += "; only a Tessera program keeps to the hard share";
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
