// Control groups of Linux (cgroups(7), versions 1 and 2): weights and bounds on processor time that the operating
// system's scheduler keeps for any program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tessera::share {

// The limits of processor time that a control group sets for a process.
struct GroupLimits {
  double weight = 1;       // against 1 of a process without a group of its own
  bool idle = false;       // processor time that nobody else wants, alone
  double quota_cores = 0;  // the most processor time a second, in cores; 0: no bound
};

// The calling process's place in a hierarchy that schedules processors.
struct GroupPlace {
  std::string folder;  // of the group that the process is in
  int version = 2;
};

// The places that texts like those of /proc/self/mountinfo and /proc/self/cgroup describe, version 2 first.
std::vector<GroupPlace> group_places(const std::string& mount_info, const std::string& groups);

// Moves the calling process to a new group below the place, and removes groups that earlier calls made and that are
// empty. Returns why that is not possible, or nothing.
std::optional<std::string> join_group(const GroupPlace& place, const GroupLimits& limits);
// Joins such a group at the first place of this system that allows it. Groups of version 1 are joined only where there
// is a weight or a bound.
std::optional<std::string> join_group(const GroupLimits& limits);

}  // namespace tessera::share
