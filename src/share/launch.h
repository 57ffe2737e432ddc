// Starting a program as a job: its environment says which job its runs belong to, and the operating system is told how
// important its threads are, whatever program it is.
#pragma once

#include <string>
#include <vector>

#include "lease/job_description.h"

namespace tessera::share {

// For the calling process: sets the job's variables, and scheduling by a control group, or else by nice and SCHED_IDLE.
// Returns a sentence that says which.
std::string become_job(const lease::JobDescription& job);

// Replaces the calling process by the program, which is looked up in PATH. Throws Error(not_found), Error(failed).
[[noreturn]] void execute(const std::vector<std::string>& command);

}  // namespace tessera::share
