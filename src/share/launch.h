// Starting a program as a job: its environment says which job its runs belong to, and the operating system is told how
// important its threads are, whatever program it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lease/job_description.h"

namespace tessera::share {

// What a control group (cgroup v2) is to give a process.
struct GroupLimits {
  double weight = 1;       // against 1 of a process without a group of its own
  bool idle = false;       // processor time that nobody else wants, alone
  double quota_cores = 0;  // the most processor time a second, in cores; 0: no bound
};

// Moves the calling process to a new group below that of `own_path` in the hierarchy at `root`, and removes groups that
// earlier calls made and that are empty. Returns why that is not possible here, or nothing.
std::optional<std::string> join_group(const std::string& root, const std::string& own_path, const GroupLimits& limits);
// The same where this system has its hierarchy.
std::optional<std::string> join_group(const GroupLimits& limits);

// For the calling process: sets the job's variables, and scheduling by a control group, or else by nice and SCHED_IDLE.
// Returns a sentence that says which.
std::string become_job(const lease::JobDescription& job);

// Replaces the calling process by the program, which is looked up in PATH. Throws Error(not_found), Error(failed).
[[noreturn]] void execute(const std::vector<std::string>& command);

}  // namespace tessera::share
