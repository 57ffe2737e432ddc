// The one thread pool of the process. It counts cores rather than threads: every thread that computes holds a core, so
// that any number of concurrent sessions never has more computing threads than the machine has cores.
//
//   ThreadPool::CoreLease lease(pool);            // blocks until a core is free; core_ledger.h says who is next
//   pool.parallel_for(rows, grain, max_threads, [&](int64_t begin, int64_t end) { … });
//
// parallel_for runs chunks on the calling thread and on the cores that are idle at that moment, in the caller's
// floating-point state (rounding, flushing). The boundaries of chunks depend only on `count` and `grain`, never on the
// number of threads. Between two chunks, a more important run may take the cores: then helpers leave, and the caller
// waits until it has a core again.
#pragma once

#include <cstdint>
#include <memory>

#include "base/threads/core_ledger.h"

namespace tessera::base {

// A non-owning reference to a callable void(int64_t begin, int64_t end); the callable must outlive the call.
class RangeFunction {
 public:
  template <typename F>
  RangeFunction(const F& function)
      : object_(&function), call_([](const void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<const F*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

// How a loop over [0, count) is cut into chunks. The result depends on `count` and `grain` alone, never on the number
// of threads.
// Usually every chunk has `grain` elements, the last one perhaps fewer. Where this would give only a few chunks, the
// range is cut instead into a multiple of four chunks of about equal size, none larger than `grain`, so that two or
// four threads share them evenly: of three chunks, one of two threads would get two, and with them data that is in the
// other's cache. Such chunks begin at multiples of the largest power of two that divides `grain` (at most 64), so that
// vectors are not cut.
class Chunks {
 public:
  Chunks(std::int64_t count, std::int64_t grain);  // `count` must be positive
  std::int64_t size() const { return size_; }
  std::int64_t begin(std::int64_t chunk) const;  // first element of the chunk; `count` for chunk == size()

 private:
  std::int64_t count_, grain_, size_;
  std::int64_t unit_ = 0, units_ = 0;  // size of a unit and number of units, where chunks have about equal size; else 0
};

class ThreadPool {
 public:
  // If the system gives fewer threads than `cores`, the pool has only those, and a warning says so.
  explicit ThreadPool(int cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The pool of the process, with as many cores as TESSERA_NUM_THREADS or else cpu_info().usable_cores says. It is made
  // at the first call and never destroyed. Throws Error(invalid_argument) if the variable is not a valid number of
  // threads.
  static ThreadPool& process();

  int cores() const { return cores_; }

  // Splits [0, count) into chunks (see Chunks), runs them on up to `max_threads` threads (0: no limit) and returns when
  // every chunk has run. If a chunk throws, the chunks that have not begun are skipped and the first exception is
  // rethrown here. Nested calls run on the calling thread alone. The caller should hold a CoreLease.
  void parallel_for(std::int64_t count, std::int64_t grain, int max_threads, RangeFunction body);

  // The right to compute on one core. Leases nest: a second lease on the same thread costs nothing, and its calls do
  // nothing. A lease is acquired and released by one thread at a time, but not always by the same one.
  class CoreLease {
   public:
    // Blocks until a core is free for a run of this priority. The holder computes on at most `threads` cores (0: no
    // limit).
    explicit CoreLease(ThreadPool& pool, Priority priority = Priority::standard, Clock& clock = Clock::steady(),
                       int threads = 0);
    ~CoreLease();
    CoreLease(const CoreLease&) = delete;
    CoreLease& operator=(const CoreLease&) = delete;

    // Gives the core up, so that the thread may wait for something; acquire() blocks until it has one again.
    void release();
    void acquire();
    // Lets more important runs go first, and runs of the same class if this one has computed for its turn
    // (CoreLedger::kTurnNs). To be called between two parts of the work, such as the steps of a plan.
    void take_turns();
    // The number of cores that the lease holds: the thread's own and, for a realtime run, those that have been set
    // aside for its helpers so far.
    int cores() const;

   private:
    ThreadPool* pool_;
    CoreHolder holder_;
    bool outermost_;
    bool holds_ = false;
  };

 private:
  struct State;
  int cores_;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::base
