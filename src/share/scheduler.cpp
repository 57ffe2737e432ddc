#include "share/scheduler.h"

#include <algorithm>

#include "base/assert.h"

namespace tessera::share {

Scheduler::Scheduler(std::string_view policy, std::int64_t memory_bytes, bool preempts) : policy_(make_policy(policy)) {
  device_.memory_bytes = memory_bytes;
  device_.preempts = preempts;
}

JobState& Scheduler::add_job(const JobOptions& options) {
  jobs_.push_back({.id = next_job_++, .options = options});
  return jobs_.back();
}

void Scheduler::remove_job(JobState& job) {
  TESSERA_ASSERT(job.runs == 0, "a job leaves while runs of it are in progress");
  policy_->job_left(job);
  jobs_.remove_if([&](const JobState& each) { return &each == &job; });
}

// The time since the last event is divided among the runs that compute; where the device preempts, only the highest
// class among them does.
void Scheduler::account(std::int64_t now_ns) {
  const std::int64_t passed = now_ns - device_.now_ns;
  device_.now_ns = now_ns;
  int computing = 0;
  Priority highest = Priority::background;
  for (const Run* const run : device_.runs) {
    if (!run->computes) continue;
    if (device_.preempts && run->job->options.priority > highest) {
      highest = run->job->options.priority;
      computing = 0;
    }
    if (!device_.preempts || run->is(highest)) ++computing;
  }
  if (computing == 0 || passed <= 0) return;
  busy_ns_ += passed;
  for (Run* const run : device_.runs) {
    if (!run->computes || (device_.preempts && !run->is(highest))) continue;
    run->measured_ns += passed / computing;
    run->job->device_ns += passed / computing;
  }
}

void Scheduler::arrive(Run& run, JobState& job, std::int64_t now_ns) {
  account(now_ns);
  run.number = ++arrivals_;
  run.job = &job;
  ++job.runs;
  const auto later = std::ranges::upper_bound(device_.runs, run.arrival_ns, {}, &Run::arrival_ns);
  device_.runs.insert(later, &run);
  policy_->run_arrived(device_, run);
}

void Scheduler::ask(Run& run, std::int64_t now_ns) {
  account(now_ns);
  run.waits = true;
}

void Scheduler::end_step(Run& run, std::int64_t now_ns) {
  account(now_ns);
  run.computes = false;
  policy_->step_ended(device_, run);
}

void Scheduler::end_run(Run& run, std::int64_t now_ns) {
  account(now_ns);
  run.waits = run.computes = false;
  --run.job->runs;
  std::erase(device_.runs, &run);
  policy_->run_ended(device_, run);
}

const std::vector<Run*>& Scheduler::begin_steps(std::int64_t now_ns) {
  account(now_ns);
  begun_.clear();
  while (Run* const run = policy_->next(device_)) {
    TESSERA_ASSERT(run->waits && !run->computes, "a policy may give waiting runs alone");
    run->waits = false;
    run->computes = run->started = true;
    run->measured_ns = 0;
    begun_.push_back(run);
  }
  return begun_;
}

}  // namespace tessera::share
