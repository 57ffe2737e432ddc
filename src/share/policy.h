// Who is next on a device that several jobs share. A policy sees the runs that are there and says which of them may
// begin its next step. It knows no threads and no clock of its own, so the same code serves threads of a process and
// simulations in virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "tessera/share.h"

namespace tessera::share {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// The parts of the device that a step keeps busy while it computes alone, each from 0 to 1.
struct Demand {
  double compute = 1, bandwidth = 0, link = 0;

  Demand operator+(const Demand& other) const {
    return {compute + other.compute, bandwidth + other.bandwidth, link + other.link};
  }
  // How many times longer steps take that compute at once and ask for this together: the busiest part is divided among
  // them (processor sharing).
  double slowdown() const { return std::max({1.0, compute, bandwidth, link}); }
  bool is_transfer() const { return compute == 0 && link > 0; }
};

struct JobState {
  int id = 0;
  JobOptions options;
  std::int64_t device_ns = 0;  // measured
  int runs = 0;                // that have arrived and not ended
};

struct Run {
  std::int64_t number = 0;  // no other run has it
  JobState* job = nullptr;
  std::int64_t arrival_ns = 0;
  std::int64_t left_ns = 0;  // predicted device time to its end, the step included
  std::int64_t step_ns = 0;  // predicted, of the step that it waits for or computes
  Demand demand;             // of that step
  Demand mean;               // of its steps in the mean
  bool started = false;      // a step of it has begun
  bool waits = false;        // for the beginning of its next step
  bool computes = false;
  std::int64_t measured_ns = 0;  // device time of the step so far
  void* owner = nullptr;         // of whoever asks for the run; policies do not look at it

  bool is(Priority priority) const { return job->options.priority == priority; }
  bool has_goal() const { return is(Priority::realtime) && job->options.goal_ns > 0; }
  std::int64_t deadline_ns() const { return has_goal() ? arrival_ns + job->options.goal_ns : kNever; }
};

struct DeviceState {
  std::int64_t now_ns = 0;
  std::int64_t memory_bytes = 0;  // 0: not bounded
  // Whether a step gives way to one of a higher class while it computes, as on the CPU between two chunks.
  bool preempts = false;
  std::deque<Run*> runs;  // in order of their arrival_ns

  // Whether no step computes that the run would have to wait for: any, or where the device preempts, any that is not
  // of a lower class.
  bool is_free_for(const Run& run) const {
    return std::ranges::none_of(runs, [&](const Run* other) {
      return other->computes && !(preempts && other->job->options.priority < run.job->options.priority);
    });
  }
};

class Policy {
 public:
  virtual ~Policy() = default;
  // A waiting run that may begin its step now, or null. Asked again, with that run computing, until it gives null.
  virtual Run* next(const DeviceState& device) = 0;
  // Whether a run of a higher class never waits for one of a lower class.
  virtual bool puts_classes_first() const { return false; }
  // Whether it may keep a run of a lower class waiting after the runs of higher classes have ended.
  virtual bool holds_back() const { return true; }
  // Whether it is whole runs that are served in turn, so that it matters when one ends and the job's next one begins.
  virtual bool goes_by_runs() const { return false; }
  // When to be asked again although nothing has happened.
  virtual std::int64_t look_again_ns() const { return kNever; }

  virtual void job_left(const JobState&) {}
  virtual void run_arrived(const DeviceState&, const Run&) {}
  // The run's measured_ns is that of the step.
  virtual void step_ended(const DeviceState&, const Run&) {}
  virtual void run_ended(const DeviceState&, const Run&) {}
};

struct PolicyEntry {
  std::string_view name, summary;
  std::unique_ptr<Policy> (*make)();
};
std::span<const PolicyEntry> all_policies();
// Throws Error(invalid_argument) listing the names.
std::unique_ptr<Policy> make_policy(std::string_view name);

std::unique_ptr<Policy> make_fifo();
std::unique_ptr<Policy> make_fair();
std::unique_ptr<Policy> make_iteration();
std::unique_ptr<Policy> make_headroom();
std::unique_ptr<Policy> make_fill();
std::unique_ptr<Policy> make_predictive();

}  // namespace tessera::share
