// Shares one device among many jobs: an Arbiter decides whose step is next, by a policy that knows the promises to each
// job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera {

namespace share {
struct ArbiterState;
}

// A job: a stream of runs with a class and promises about its latency and memory.
struct JobOptions {
  std::string name;  // for people; in messages and reports
  Priority priority = Priority::standard;
  double weight = 1;         // share of the device's time, relative to the weights of other jobs
  std::int64_t goal_ns = 0;  // realtime jobs: the latency that a run should not exceed; 0: no goal
  // Memory that the job gets whenever it asks for it, and the most that it may hold; 0: no guarantee, no limit.
  std::int64_t guarantee_bytes = 0, limit_bytes = 0;
  // Bytes that the job holds between runs, and the most that one run holds in addition. The policy `iteration` admits
  // jobs by these.
  std::int64_t persistent_bytes = 0, temporary_bytes = 0;
};

// Statistics of a job since it was added.
struct JobReport {
  std::string name;
  Priority priority = Priority::standard;
  std::int64_t runs = 0, failed_runs = 0;
  std::int64_t device_ns = 0;           // device time used by the job; where runs overlap, each counts an equal part
  std::int64_t waited_ns = 0;           // time spent waiting for its turn, all runs together
  std::int64_t p50_ns = 0, p99_ns = 0;  // latency of the latest runs, at most 4096 of them
  std::int64_t goal_misses = 0;         // runs that took longer than the goal
  std::int64_t memory_bytes = 0, peak_memory_bytes = 0;
  std::int64_t spills = 0, spilled_bytes = 0;  // runs that gave their memory to others, and bytes they wrote to files
  double prediction_error = 0;  // median of |predicted − measured| / measured over the latest steps; 0 before any
};

struct ArbiterOptions {
  std::string policy = "fill";    // one of policy_names()
  std::int64_t memory_bytes = 0;  // memory of the device, for guarantees and limits; 0: unlimited
  std::string device = "cpu";     // the device of the sessions; on the CPU a step can yield while it computes
  Clock* clock = nullptr;         // null: the steady clock
  // Where background runs keep the contents of memory that others need: "" for $TMPDIR, or else /var/tmp.
  std::string spill_folder = {};
};

// The policies by which an arbiter decides; docs/sharing.md compares them.
std::vector<std::string> policy_names();

class Arbiter;

// One job of an arbiter. Thread-safe: concurrent runs of one job are runs of it. It may outlive the arbiter, but
// no run of it may be in progress when it is destroyed.
class Job {
 public:
  ~Job();
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;

  // Calls Session::run; the arbiter admits its steps one by one. The job's own gate and priority replace those of the
  // options. Throws what Session::run throws; the job's place is free then.
  NamedValues run(Session& session, const NamedValues& inputs, RunOptions options = {});
  // Computes the requested outputs only. A training becomes a job by TrainingHooks::run.
  std::vector<Value> run(Session& session, const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                         RunOptions options = {});
  // Runs a function of the caller's (loading data, post-processing) as one step. It begins when its turn has come and
  // holds a core of the process meanwhile; in a process that `tessera share run` started, it also needs a grant of the
  // daemon. Calls with the same name are expected to take equally long. Exceptions of the function pass through.
  //
  //   Job loader = arbiter.add_job({.name = "loader", .priority = Priority::background});
  //   loader.run("decode", [&] { batch = decode(file); });
  void run(const std::string& name, const std::function<void()>& work);

  // Counts bytes that the job holds besides the arenas of its runs, which are charged automatically. Throws
  // Error(over_budget) that names the job, the request and the free memory.
  void charge(std::int64_t bytes, const std::string& what);
  void release(std::int64_t bytes);

  JobReport report() const;
  // The device time of a run of the session on inputs of these shapes, measured on the latest such runs; 0 before any.
  std::int64_t predicted_ns(const Session& session, const NamedValues& inputs) const;
  // The predicted device time that runs in progress of other jobs, of this job's class or a higher one, still need.
  std::int64_t ahead_ns() const;

 private:
  friend class Arbiter;
  struct State;
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Thread-safe.
class Arbiter {
 public:
  // Throws Error(invalid_argument) for an unknown policy.
  explicit Arbiter(const ArbiterOptions& options = {});
  ~Arbiter();
  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;

  // Throws Error: invalid_argument for options that make no sense; over_budget where the guarantees of all jobs are
  // more than the device has.
  Job add_job(const JobOptions& options);
  const std::string& policy() const;

 private:
  std::shared_ptr<share::ArbiterState> state_;
};

}  // namespace tessera
