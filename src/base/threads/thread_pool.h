// The one pool of the process. Cores are counted, not threads: whoever computes holds a core, so any number of sessions
// running at once never has more computing threads than the machine has cores.
//
//   ThreadPool::CoreLease lease(pool);            // blocks until a core is free; see core_ledger.h for who is next
//   pool.parallel_for(rows, grain, max_threads, [&](int64_t begin, int64_t end) { … });
//
// parallel_for runs chunks on the calling thread and on the cores that are idle at that moment, in the floating-point
// state (rounding, flushing) of the caller; chunk boundaries depend only on `count` and `grain`, never on how many
// threads come. Between two chunks a more important run may take the cores: helpers leave, and the caller waits until
// it has a core again.
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

// How [0, count) is cut into chunks, on however many threads: of `grain`, or where these are few, into a number of
// chunks of about equal size, and no larger, that two or four threads share evenly: of three, one thread would get two,
// and data that the other one has in its cache. What `grain` has of small powers of two, chunks have too, so that
// vectors are whole.
class Chunks {
 public:
  Chunks(std::int64_t count, std::int64_t grain);  // a positive count
  std::int64_t size() const { return size_; }
  std::int64_t begin(std::int64_t chunk) const;  // of `size()`: the count

 private:
  std::int64_t count_, grain_, size_;
  std::int64_t unit_ = 0, units_ = 0;  // of chunks of about equal size
};

class ThreadPool {
 public:
  // Where the system gives fewer threads than `cores`, so many are the pool's, and a warning says so.
  explicit ThreadPool(int cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Sized by cpu_info().usable_cores, or TESSERA_NUM_THREADS; made at the first call and never destroyed. Throws
  // Error(invalid_argument) when the variable is no number of threads.
  static ThreadPool& process();

  int cores() const { return cores_; }

  // Splits [0, count) into chunks (see Chunks) and runs them on up to max_threads threads (0: all).
  // Returns when every chunk has run. The first exception thrown by a chunk is rethrown here, the rest of the chunks
  // are skipped. Nested calls run on the calling thread alone. The caller should hold a CoreLease.
  void parallel_for(std::int64_t count, std::int64_t grain, int max_threads, RangeFunction body);

  // The right to compute on one core. Leases nest: a second lease on the same thread is free, and its calls do nothing.
  // A lease is acquired and released by one thread at a time, which may be another each time.
  class CoreLease {
   public:
    // Blocks until a core is free for the class. `threads`: most cores that the holder computes on (0: all).
    explicit CoreLease(ThreadPool& pool, Priority priority = Priority::standard, Clock& clock = Clock::steady(),
                       int threads = 0);
    ~CoreLease();
    CoreLease(const CoreLease&) = delete;
    CoreLease& operator=(const CoreLease&) = delete;

    // Gives the core up, so that the thread may wait for something; acquire() waits for one again.
    void release();
    void acquire();
    // To be called between two parts of the work: lets more important runs go first, and runs of the same class if this
    // one has computed for its turn (CoreLedger::kTurnNs).
    void take_turns();
    // How many cores the lease holds: the thread's own and, of a realtime run, those that have been given up for its
    // helpers so far.
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
