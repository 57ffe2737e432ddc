// The jobs of other processes under the scheduler: it reads from the board what they do, tells the scheduler, and
// writes to the board who may compute.
//
// A run of the scheduler is the time in which a process has runs in progress; where the policy serves whole runs, or
// the job has a goal, it ends with the oldest of them, and the process's next one arrived when the oldest of the others
// did. Its steps are terms: a job computes until the policy wants another one to, at least kTermNs. A job that is idle
// keeps a standing grant, if the policy would let it begin at once: then its next run begins without asking.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "lease/board.h"
#include "share/memory_ledger.h"
#include "share/scheduler.h"

namespace tessera::share {

// The state of a job of another process.
struct LeaseReport {
  JobOptions options;
  pid_t process = 0;
  lease::Activity activity = lease::Activity::idle;
  bool lost = false;              // it stood still, and others compute in its place until it moves
  std::int64_t device_ns = 0;     // in which it computed by its lease
  std::int64_t processor_ns = 0;  // of all its threads, as the operating system counts
  std::int64_t attached_ns = 0;   // since when, on the steady clock
  std::int64_t memory_bytes = 0, peak_memory_bytes = 0;
  std::uint64_t runs = 0, failed_runs = 0, spills = 0;
  std::int64_t waited_ns = 0, p50_ns = 0, p99_ns = 0, goal_misses = 0;
  double prediction_error = 0;
};

// Not thread-safe. Times are of the steady clock.
class LeaseKeeper {
 public:
  static constexpr std::int64_t kTermNs = 4'000'000;
  // A process that has its turn and neither takes a step nor uses a processor for so long loses it; one that takes no
  // step for kMostStepNs loses it in any case.
  static constexpr std::int64_t kStallNs = 250'000'000, kMostStepNs = 10'000'000'000;

  LeaseKeeper(const std::string& policy, std::int64_t memory_bytes);
  ~LeaseKeeper();

  // A job's number on the board. Throws Error: invalid_argument for options that make no sense, over_budget where its
  // guarantee cannot be given, exhausted places.
  int add_job(const JobOptions& options, pid_t process, std::int64_t now_ns);
  // Removes a job and frees what it held.
  void remove_job(int number, std::int64_t now_ns);
  void charge(int number, std::int64_t bytes, const std::string& what);
  void release(int number, std::int64_t bytes);
  // Memory of a background job that others may ask back (Slot::wanted_bytes). Whether it was granted; else it may be
  // later. Throws Error: over_budget where it never fits, invalid_argument for jobs of other classes.
  bool borrow(int number, std::int64_t bytes, std::int64_t quiet_ns, std::int64_t now_ns);
  void give_back(int number, std::int64_t bytes, std::int64_t now_ns);

  // Takes in what the processes did, and lets those compute whose turn it is. Returns when to look again.
  std::int64_t look(std::int64_t now_ns);

  std::vector<LeaseReport> report() const;
  const lease::SharedBoard& board() const { return board_; }

 private:
  struct Lessee;

  Lessee& find(int number);
  lease::BoardSlot& slot_of(const Lessee& job) const;
  void observe(Lessee& job, std::int64_t now_ns);
  void arrive(Lessee& job, std::int64_t now_ns);
  void finish(Lessee& job, std::int64_t now_ns);
  void end_term(Lessee& job, std::int64_t now_ns);
  bool keeps_turn(Lessee& job, lease::Activity activity, std::int64_t now_ns);
  bool stands_still(Lessee& job, std::int64_t now_ns);
  void lose(Lessee& job, std::int64_t now_ns);
  void grant(Lessee& job, std::int64_t now_ns);
  void revoke(Lessee& job);
  bool is_contested(const Lessee& job) const;
  bool may_begin_unasked(const Lessee& idle) const;
  std::int64_t next_look_ns(std::int64_t now_ns) const;
  void tell_what_is_wanted();

  lease::SharedBoard board_;
  Scheduler scheduler_;
  MemoryLedger memory_;
  std::list<Lessee> jobs_;
  int next_number_ = 0;
};

}  // namespace tessera::share
