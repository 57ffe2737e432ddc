// The jobs and runs of one device, and a policy that says who is next. Callers tell what happens, with the time, and
// begin the steps that they are given: threads of a process (arbiter.cpp) or events of a simulation (simulation.cpp).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "share/policy.h"

namespace tessera::share {

// Not thread-safe. Times are those of one clock and never go back.
class Scheduler {
 public:
  // `memory_bytes`: of the device, 0 where it is not bounded. `preempts`: see DeviceState.
  Scheduler(std::string_view policy, std::int64_t memory_bytes, bool preempts);

  JobState& add_job(const JobOptions& options);
  // A job without runs.
  void remove_job(JobState& job);

  // The run's arrival, its prediction and mean demand stand in `run`; it gets its number. It must live until end_run.
  // It may have arrived before runs that are known already.
  void arrive(Run& run, JobState& job, std::int64_t now_ns);
  // The run's step and demand stand in it.
  void ask(Run& run, std::int64_t now_ns);
  // The run computes no more, until it asks again; run.measured_ns is the device time of the step.
  void end_step(Run& run, std::int64_t now_ns);
  // After its last step, or in place of asking for one.
  void end_run(Run& run, std::int64_t now_ns);

  // Runs that may begin their step now; they count as computing. The list is valid until the next call.
  const std::vector<Run*>& begin_steps(std::int64_t now_ns);
  // When begin_steps should be called again if nothing happens before.
  std::int64_t look_again_ns() const { return policy_->look_again_ns(); }

  bool goes_by_runs() const { return policy_->goes_by_runs(); }
  bool puts_classes_first() const { return policy_->puts_classes_first(); }
  bool holds_back() const { return policy_->holds_back(); }

  const DeviceState& device() const { return device_; }
  std::int64_t busy_ns() const { return busy_ns_; }

 private:
  void account(std::int64_t now_ns);

  DeviceState device_;
  std::unique_ptr<Policy> policy_;
  std::list<JobState> jobs_;
  std::vector<Run*> begun_;
  std::int64_t arrivals_ = 0, busy_ns_ = 0;
  int next_job_ = 0;
};

}  // namespace tessera::share
