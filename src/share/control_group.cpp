#include "share/control_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace tessera::share {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGroupPrefix = "tessera-job-";

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The kernel takes or refuses a setting when it is written.
bool write_setting(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool has_word(const std::string& text, const std::string& word, char between) {
  std::istringstream words(text);
  std::string each;
  while (std::getline(words, each, between)) {
    while (!each.empty() && each.back() == '\n') each.pop_back();
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

std::optional<std::string> enable_cpu_controller(const fs::path& parent) {
  if (!has_word(read_text(parent / "cgroup.controllers"), "cpu", ' '))
    return fmt::format("the control group '{}' has no cpu controller", parent.string());
  if (!has_word(read_text(parent / "cgroup.subtree_control"), "cpu", ' ') &&
      !write_setting(parent / "cgroup.subtree_control", "+cpu"))
    return fmt::format("the cpu controller cannot be enabled below '{}'", parent.string());
  return std::nullopt;
}

using Settings = std::vector<std::pair<const char*, std::string>>;

// The settings of the group in the order in which they are written.
Settings settings_of(const GroupLimits& limits, int version) {
  // The kernel refuses less than 1 ms a period, and periods beyond a second.
  constexpr double kPeriodUs = 20'000, kLeastQuotaUs = 1'000, kMostPeriodUs = 1'000'000;
  Settings settings;
  if (limits.idle) {
    settings.emplace_back("cpu.idle", "1");
  } else if (version == 2) {  // 100 stands for 1
    settings.emplace_back("cpu.weight", std::to_string(std::clamp(std::lround(100 * limits.weight), 1L, 10'000L)));
  } else {
    settings.emplace_back("cpu.shares", std::to_string(std::clamp(std::lround(1024 * limits.weight), 2L, 262'144L)));
  }
  if (limits.quota_cores <= 0) return settings;
  const double period_us = std::clamp(kLeastQuotaUs / limits.quota_cores, kPeriodUs, kMostPeriodUs);
  const long period = std::lround(period_us);
  const long quota = std::lround(std::max(kLeastQuotaUs, period_us * limits.quota_cores));
  if (version == 2) {
    settings.emplace_back("cpu.max", fmt::format("{} {}", quota, period));
  } else {
    settings.emplace_back("cpu.cfs_period_us", std::to_string(period));
    settings.emplace_back("cpu.cfs_quota_us", std::to_string(quota));
  }
  return settings;
}

}  // namespace

std::vector<GroupPlace> group_places(const std::string& mount_info, const std::string& groups) {
  std::vector<GroupPlace> places;
  std::istringstream mounts(mount_info);
  for (std::string mount; std::getline(mounts, mount);) {
    // 36 35 98:0 /root/of/mount /mount/point options [optional fields] - type source options_of_the_file_system
    const std::size_t dash = mount.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(mount.substr(0, dash)), after(mount.substr(dash + 3));
    std::string skipped, root, point, type, source, options;
    before >> skipped >> skipped >> skipped >> root >> point;
    after >> type >> source >> options;
    const bool first = type == "cgroup" && has_word(options, "cpu", ',');
    if (!first && type != "cgroup2") continue;
    std::istringstream lines(groups);
    for (std::string line; std::getline(lines, line);) {
      // 1:cpu,cpuacct:/path, of version 2: 0::/path
      const std::size_t name = line.find(':'), path = line.find(':', name + 1);
      if (name == std::string::npos || path == std::string::npos) continue;
      const std::string controllers = line.substr(name + 1, path - name - 1);
      if (first ? !has_word(controllers, "cpu", ',') : !line.starts_with("0::")) continue;
      std::string own = line.substr(path + 1);
      // A container may see its own group as the root of the mount.
      if (root != "/" && own.starts_with(root)) own.erase(0, root.size());
      places.push_back({own == "/" ? point : point + own, first ? 1 : 2});
    }
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &GroupPlace::version);
  return places;
}

std::optional<std::string> join_group(const GroupPlace& place, const GroupLimits& limits) {
  const fs::path parent = place.folder;
  if (place.version == 2) {
    if (std::optional<std::string> refused = enable_cpu_controller(parent)) return refused;
  }
  remove_empty_groups(parent);
  const fs::path group = parent / fmt::format("{}{}", kGroupPrefix, getpid());
  std::error_code error;
  if (!fs::create_directory(group, error))
    return fmt::format("no group can be made in '{}': {}", parent.string(), error.message());
  Settings settings = settings_of(limits, place.version);
  settings.emplace_back("cgroup.procs", std::to_string(getpid()));
  for (const auto& [file, text] : settings) {
    if (write_setting(group / file, text)) continue;
    rmdir(group.c_str());
    return fmt::format("'{}' does not take '{}'", (group / file).string(), text);
  }
  return std::nullopt;
}

std::optional<std::string> join_group(const GroupLimits& limits) {
  const bool is_plain = limits.quota_cores <= 0 && (limits.idle || limits.weight == 1);
  std::string refusals;
  for (const GroupPlace& place : group_places(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup"))) {
    // Systems with version 1 have all programs in one group, where SCHED_IDLE is what `idle` asks for.
    const std::optional<std::string> refused = place.version == 1 && is_plain
                                                   ? "control groups of version 1 are used for weights and bounds alone"
                                                   : join_group(place, limits);
    if (!refused) return std::nullopt;
    refusals += (refusals.empty() ? "" : " and ") + *refused;
  }
  return refusals.empty() ? "this system has no control groups for processors" : refusals;
}

}  // namespace tessera::share
