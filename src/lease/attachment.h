// Attaches this process to a sharing daemon as a job. Each run of the process becomes a run of the job: it waits until
// the daemon grants the job its turn, and it leaves the cores, between two steps or two chunks of a step, while a job
// of a higher class computes in another process.
//
// While no other process is attached, a run costs two locks of a mutex and a few stores. A job keeps what it was
// granted until the daemon takes it back, so most runs begin without a request. A process without a daemon computes as
// if it were alone, with the share of the cores that the operating system gives it, and attaches as soon as a daemon
// listens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/outside_demand.h"
#include "cost/predictor.h"
#include "lease/board.h"
#include "lease/core_quota.h"
#include "lease/job_description.h"
#include "lease/messages.h"

namespace tessera::lease {

class Attachment final : public base::OutsideDemand {
 public:
  // Tries to attach at once, and keeps trying on a thread of its own.
  explicit Attachment(const JobDescription& job);
  ~Attachment() override;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // The attachment of this process, made at the first call. Null if the environment describes no job, and in a process
  // that was forked from an attached one. Throws Error(invalid_argument) as job_by_environment does.
  static Attachment* of_process();

  const JobDescription& job() const { return job_; }
  bool is_attached() const { return connection_.load() != nullptr; }

  // Begin one run; returns the time of its arrival. `begin_run` does not block: the run asks may_compute before its
  // first step.
  std::int64_t begin_run();
  void end_run(std::int64_t arrival_ns, bool failed);
  // Whether the run may go on. To be called before each step.
  bool may_compute();
  // To be called after may_compute returned false, by a thread that holds no core. Returns when it may be worth asking
  // again, within 20 ms.
  void wait() override;
  bool wants_cores() override { return !is_allowed(); }

  // Accounts for memory that the process holds for its job. Throws Error(over_budget) if the daemon does not grant it.
  void charge(std::int64_t bytes, std::string_view what);
  void release(std::int64_t bytes);

  // Whether the arenas of background runs are borrowed, because memory is limited; others may then ask for them back.
  bool lends() const;
  // Returns whether the bytes were granted; if not, they may be granted later. They are given back when no run holds
  // them. Throws Error(over_budget) if they can never be granted.
  bool borrow(std::int64_t bytes, std::int64_t quiet_ns);
  void give_back(std::int64_t bytes) noexcept;
  // The bytes of the job's borrowed memory that others are waiting for.
  std::int64_t wanted_bytes() const noexcept;
  void count_spill() noexcept;

  // Records the measurement of a step: the processor time of its run's thread.
  void learn_step(std::uint64_t key, std::int64_t measured_ns);

 private:
  struct Connection;

  bool is_allowed();
  bool exceeds_quota() { return quota_ != nullptr && quota_->is_exceeded(); }
  // Writes the process's activity to the board and wakes those whom it concerns. Called with the mutex held.
  void settle();
  void state(Connection& connection, Activity activity);
  void kick(Connection& connection, bool always);

  void keep_attached();
  bool try_attach();
  void detach(const Connection* lost);
  bool exchange(const Request& request, Reply& reply, std::vector<int>* descriptors = nullptr);
  void give_memory_back();

  const JobDescription job_;
  const std::unique_ptr<CoreQuota> quota_;
  std::mutex mutex_;
  std::atomic<Connection*> connection_{nullptr};  // null while the process is alone
  // includes former ones, which a thread may still be looking at
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::int64_t> arrivals_;  // of the runs in progress, the oldest first
  Activity activity_ = Activity::idle;
  std::int64_t kicked_ns_ = 0;
  std::string refusal_;  // the latest one that was reported

  std::mutex exchange_mutex_;
  std::atomic<std::int64_t> used_bytes_{0}, credit_bytes_{0};
  std::int64_t borrowed_bytes_ = 0;  // protected by exchange_mutex_; borrowed through `lender_`
  const Connection* lender_ = nullptr;

  std::mutex predictor_mutex_;
  cost::Predictor predictor_;

  int stop_ = -1;  // eventfd
  pthread_t keeper_{};
};

// A run of the process's job; does nothing if there is none. Must be made before the run takes a core.
class ProcessRun {
 public:
  explicit ProcessRun(Attachment* attachment);
  ~ProcessRun();
  ProcessRun(const ProcessRun&) = delete;
  ProcessRun& operator=(const ProcessRun&) = delete;

  bool may_pass(const StepInfo& step);
  void wait();
  // The class of a run for which the caller requested `asked`: the job's class if the caller requested none.
  Priority class_of(Priority asked) const;
  void succeeded() { failed_ = false; }

 private:
  Attachment* const attachment_;
  std::int64_t arrival_ns_ = 0;
  bool failed_ = true;
  bool measures_ = false;
  std::uint64_t key_ = 0;
  std::int64_t step_start_ns_ = 0;  // on the thread's processor-time clock; 0 if the step is not measured
};

}  // namespace tessera::lease
