// Length: the tasks, the team of workers and the loops that invite them wake one another by atomics whose order is
// argued across all of them.
#include "base/threads/thread_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/cpu_info.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/numbers/checked.h"
#include "base/numbers/float_state.h"
#include "base/threads/idle_scheduling.h"
#include "base/threads/outside_demand.h"
#include "base/threads/thread_duty.h"
#include "base/threads/thread_spans.h"
#include "base/threads/worker_thread.h"
#include "base/threads/yield_point.h"

namespace tessera::base {
namespace {

// The core that the calling thread holds and its ledger; null if it holds none.
thread_local CoreHolder* current_holder = nullptr;
thread_local CoreLedger* current_ledger = nullptr;
thread_local bool inside_parallel_for = false;

class HoldsCore {
 public:
  HoldsCore(CoreLedger& ledger, CoreHolder& holder) {
    current_ledger = &ledger;
    current_holder = &holder;
  }
  ~HoldsCore() { current_holder = nullptr; }
  HoldsCore(const HoldsCore&) = delete;
  HoldsCore& operator=(const HoldsCore&) = delete;
};

// How long a worker, or a caller whose chunks are all taken, spins before it sleeps. Between two steps of a plan a few
// microseconds pass, and more while a step runs on one core; waking a sleeping thread takes tens of microseconds, on a
// virtual machine often a hundred.
constexpr auto kSpinTime = std::chrono::microseconds(200);
// How long it spins without letting other threads have its processor. Between two steps there is no reason to; after a
// run, a thread that waits for the result, perhaps in another process, may have been woken on this very processor.
constexpr auto kSpinAlone = std::chrono::microseconds(20);
constexpr int kPausesBetweenLooks = 32;  // between two looks at the clock
// How often a caller that has given its core up checks whether its helpers are done.
constexpr std::int64_t kPauseNs = 20'000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until `done` returns true or kSpinTime is over. Returns whether it was true.
template <typename Done>
bool spin_until(const Done& done) {
  if (done()) return true;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < kPausesBetweenLooks; ++i) {
      pause();
      if (done()) return true;
    }
    const auto spun = std::chrono::steady_clock::now() - begin;
    if (spun >= kSpinTime) return false;
    if (spun >= kSpinAlone) std::this_thread::yield();
  }
}

// For locks that are held for a few instructions only: a thread that finds one taken spins instead of sleeping.
std::unique_lock<std::mutex> lock_briefly(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int i = 0; i < 1000 && !lock.owns_lock(); ++i) {
    pause();
    lock.try_lock();
  }
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

// The chunks that one thread begins with. On a cache line of its own, because each thread counts in its own range.
struct alignas(64) ChunkRange {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

struct Task;

// The pool's workers, as a loop sees them.
class Team {
 public:
  // Invites as many helpers as the loop lacks, but only as many as there are idle cores for.
  virtual void invite(Task& task) = 0;
  // Withdraws invitations that no worker has accepted yet, so that the caller need not wait for a sleeping one.
  virtual void withdraw(Task& task) = 0;

 protected:
  ~Team() = default;
};

class WithoutIdling {
 public:
  explicit WithoutIdling(bool idles) : idles_(idles) {
    if (idles_) end_to_idle();
  }
  ~WithoutIdling() {
    if (idles_) begin_to_idle();
  }
  WithoutIdling(const WithoutIdling&) = delete;
  WithoutIdling& operator=(const WithoutIdling&) = delete;

 private:
  const bool idles_;
};

// One parallel_for in flight. It lives on the caller's stack; `active` counts the helpers that are invited or inside
// it.
//
// A thread first takes the chunks of its own range, in order, and then those left in the others' ranges. So it gets
// about the same part of the data in every loop, which it then finds in its own core's cache.
struct Task {
  static constexpr std::int64_t kMostRanges = 16;  // on the caller's stack; more threads share them

  Task(std::int64_t count, std::int64_t grain, RangeFunction given, CoreLedger& cores, Team& helpers_from)
      : pieces(count, grain), body(given), ledger(cores), team(helpers_from) {}

  void cut(std::int64_t threads) {
    ranges = std::min(threads, kMostRanges);
    const auto begin = [&](std::int64_t i) {
      return pieces.size() / ranges * i + pieces.size() % ranges * i / ranges;
    };  // chunks * i may overflow
    for (std::int64_t i = 0; i < ranges; ++i) {
      range[static_cast<std::size_t>(i)].next.store(begin(i), std::memory_order_relaxed);
      range[static_cast<std::size_t>(i)].end = begin(i + 1);
    }
  }

  // Runs chunks until none are left or the thread has to leave. Thread 0 is the caller.
  void work(std::int64_t thread) {
    if (thread != 0 && priority == Priority::background) processors.move_to_free_one();
    if (idles) begin_to_idle();
    if (spans != nullptr) work_and_record(static_cast<int>(thread));
    else work_off_all(thread);
    if (idles) end_to_idle();
  }

  void work_and_record(int thread) {
    ThreadSpan span{.thread = thread, .start_ns = clock->now_ns()};
    span.chunks = work_off_all(thread);
    span.end_ns = clock->now_ns();
    if (span.chunks > 0) spans->add(span);
  }

  // Returns how many chunks this thread ran.
  std::int64_t work_off_all(std::int64_t thread) {
    const std::int64_t first = thread == 0 ? 0 : free_range(thread);
    std::int64_t ran = 0;
    for (std::int64_t i = 0; i < ranges; ++i)
      ran += work_off(range[static_cast<std::size_t>((first + i) % ranges)], thread != 0);
    return ran;
  }

  // The range where a helper begins: its own or, if the pool has more threads than the loop has ranges, the next one
  // that no thread has begun with.
  std::int64_t free_range(std::int64_t thread) {
    for (std::int64_t i = thread; i < thread + ranges; ++i) {
      const std::uint32_t bit = 1u << (i % ranges);
      if ((begun.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) return i % ranges;
    }
    return thread % ranges;
  }

  // Called between two chunks. Returns false if the thread is to leave: helpers leave when a more important run waits,
  // here or in another process.
  bool goes_on(bool helps) {
    const WithoutIdling without_idling(idles);  // the following takes locks that others need
    // A realtime run keeps the cores that it has lent to its helpers until the step is done.
    const bool outside = priority != Priority::realtime && outside_wants_cores();
    const bool wanted = outside || ledger.is_wanted(priority);
    if (helps) {
      if (wanted) left.store(true, std::memory_order_relaxed);
      return !wanted;
    }
    if (wanted && owner != nullptr) {
      team.withdraw(*this);
      if (outside) leave_cores_to_others();
      ledger.yield(*owner);
    }
    if (left.load(std::memory_order_relaxed) && ledger.has_idle()) {
      left.store(false, std::memory_order_relaxed);
      team.invite(*this);
    }
    return true;
  }

  void leave_cores_to_others() {
    OutsideDemand& demand = *outside_demand.load(std::memory_order_acquire);
    ledger.pause(*owner);
    while (demand.wants_cores()) demand.wait();
    ledger.resume(*owner);
  }

  // Returns how many chunks it ran.
  std::int64_t work_off(ChunkRange& taken, bool helps) {
    std::int64_t ran = 0;
    while (!failed.load(std::memory_order_relaxed)) {
      if (taken.next.load(std::memory_order_relaxed) >= taken.end)
        return ran;  // only reads the cache line, so that all threads may share it
      if ((ledger.is_wanted(priority) || left.load(std::memory_order_relaxed) || outside_wants_cores()) &&
          !goes_on(helps))
        return ran;
      const std::int64_t chunk = taken.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= taken.end) return ran;
      ++ran;
      try {
        body(pieces.begin(chunk), pieces.begin(chunk + 1));
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    return ran;
  }

  const Chunks pieces;
  const RangeFunction body;
  const std::uint32_t caller_float_state =
      float_state();  // helpers take it on, so that a chunk's result does not depend on its thread
  CoreLedger& ledger;
  CoreHolder* const owner = current_holder;  // the caller's core, or null if it holds none
  const Priority priority = owner != nullptr ? owner->priority : Priority::standard;
  Clock* const clock = owner != nullptr ? owner->clock : &Clock::steady();
  Team& team;
  bool idles = false;             // whether its helpers are idle-scheduled
  OccupiedProcessors processors;  // of a background loop
  int most_helpers = 0;
  std::int64_t ranges = 0;
  std::array<ChunkRange, kMostRanges> range;
  std::atomic<std::uint32_t> begun{1};  // bitmask of the ranges that a thread has begun with; the first is the caller's
  std::atomic<int> active{0};
  std::atomic<bool> left{false};  // whether a helper has left before the end
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  ThreadSpans* spans = nullptr;  // where the threads record when they worked, or null
};

}  // namespace

struct ThreadPool::State final : Team {
  explicit State(int cores) : ledger(cores) {}

  // Workers that help the same kind of runs.
  struct Crew {
    std::condition_variable work_arrived;
    std::deque<Task*> invitations;  // one entry per invited helper; each already holds a core
    std::atomic<int> pending{0};    // == invitations.size(), readable without the mutex
  };

  CoreLedger ledger;
  std::mutex mutex;
  Crew all, idling;                   // `idling` helps background runs, once it has workers
  std::atomic<bool> split{false};     // whether `idling` has workers
  std::atomic<int> realtime_runs{0};  // number of realtime runs that hold cores
  bool stopping = false;
  std::vector<pthread_t> workers;

  Crew& crew_of(const Task& task) { return task.idles ? idling : all; }

  // Gives background runs idle-scheduled workers of their own. If the system gives no more threads, nothing changes.
  void hire_idling(int cores) {
    const std::lock_guard lock(mutex);
    if (split || stopping) return;
    try {
      for (int number = 1; number < cores; ++number) {
        workers.push_back(start_worker_thread([this, number] { worker_loop(number, idling); }));
      }
      split = true;
    } catch (const std::exception& error) {
      warn("background runs compute on the threads of all others, because the system gives no more: {}",
           std::string_view(error.what()));
    }
  }

  void worker_loop(int thread, Crew& crew) {
    auto& [work_arrived, invitations, pending] = crew;
    inside_parallel_for = true;
    while (true) {
      // While another run waits for a core, the worker should not keep a processor busy that it could leave to that
      // run. During a realtime run it could not: the core is set aside for that run, whose next loop comes soon.
      spin_until([this, &crew] {
        if (crew.pending.load(std::memory_order_acquire) != 0) return true;
        if (realtime_runs.load(std::memory_order_relaxed) > 0) return &crew == &idling;
        return ledger.has_waiting() || ledger.is_wanted(Priority::background) || outside_wants_cores();
      });
      const bool invited = pending.load(std::memory_order_acquire) != 0;
      Task* task = nullptr;
      {
        auto lock = lock_briefly(mutex);
        if (!invited && !stopping && invitations.empty()) work_arrived.wait(lock);
        if (invitations.empty()) {
          if (stopping) return;
          continue;  // woken too late; the next invitation is likely to come soon
        }
        task = invitations.front();
        invitations.pop_front();
        pending.store(static_cast<int>(invitations.size()), std::memory_order_release);
      }
      help(*task, thread);
    }
  }

  void help(Task& task, int thread) {
    CoreHolder holder{.priority = task.priority};
    {
      const HoldsCore holds(ledger, holder);
      set_float_state(task.caller_float_state);
      task.work(thread);
    }
    // before leaving, because its caller may ask for the core again at once
    ledger.give_back(task.owner, task.priority, 1);
    task.active.fetch_sub(1, std::memory_order_acq_rel);
  }

  void invite(Task& task) override {
    const int wanted = task.most_helpers - task.active.load(std::memory_order_relaxed);
    const int invited = wanted > 0 ? ledger.borrow(task.owner, task.priority, wanted) : 0;
    if (invited == 0) return;
    auto& [work_arrived, invitations, pending] = crew_of(task);
    {
      const auto lock = lock_briefly(mutex);
      task.active.fetch_add(invited, std::memory_order_relaxed);
      for (int i = 0; i < invited; ++i) invitations.push_back(&task);
      pending.store(static_cast<int>(invitations.size()), std::memory_order_release);
    }
    for (int i = 0; i < invited; ++i) work_arrived.notify_one();
  }

  void withdraw(Task& task) override {
    auto& [work_arrived, invitations, pending] = crew_of(task);
    if (task.active.load(std::memory_order_acquire) == 0 || pending.load(std::memory_order_acquire) == 0) return;
    int withdrawn = 0;
    {
      const auto lock = lock_briefly(mutex);
      withdrawn = static_cast<int>(std::erase(invitations, &task));
      pending.store(static_cast<int>(invitations.size()), std::memory_order_release);
    }
    if (withdrawn == 0) return;
    ledger.give_back(task.owner, task.priority, withdrawn);
    task.active.fetch_sub(withdrawn, std::memory_order_acq_rel);
  }

  // Returns when no helper is inside the loop. If the helpers lost their cores, or take long while other runs wait, the
  // caller gives up its own core meanwhile.
  void wait_for_helpers(Task& task) {
    const auto done = [&] { return task.active.load(std::memory_order_acquire) == 0; };
    if (done()) return;
    withdraw(task);
    const bool may_pause = task.owner != nullptr && task.priority != Priority::realtime;
    const auto interrupted = [&] { return done() || (may_pause && ledger.is_wanted(task.priority)); };
    // Otherwise the caller would keep an idle-scheduled helper from the processor that both are on.
    if (task.idles) begin_to_idle();
    while (!done()) {
      if (spin_until(interrupted) && done()) break;
      if (!may_pause || !(ledger.has_waiting() || ledger.is_wanted(task.priority))) {
        std::this_thread::yield();
        continue;
      }
      const WithoutIdling without_idling(task.idles);  // the following takes locks that others need
      ledger.pause(*task.owner);
      while (!done()) task.clock->sleep_until(task.clock->now_ns() + kPauseNs);
      ledger.resume(*task.owner);
    }
    if (task.idles) end_to_idle();
  }
};

namespace {

void warn_of_missing_threads(int threads, int wanted, const char* why) noexcept {
  try {
    warn("computing with {} of {} threads, because the system gives no more: {}", threads, wanted,
         std::string_view(why));
  } catch (const std::exception&) {  // no memory for the message; the pool must be made all the same
  }
}

}  // namespace

Chunks::Chunks(std::int64_t count, std::int64_t grain)
    : count_(count), grain_(std::max<std::int64_t>(grain, 1)), size_(ceil_divide(count, grain_)) {
  constexpr std::int64_t kFewChunks = 32, kShares = 4, kMostUnit = 64;
  if (size_ <= 2 || size_ >= kFewChunks) return;
  unit_ = std::min(grain_ & -grain_, kMostUnit);
  units_ = ceil_divide(count, unit_);
  size_ = std::min(units_, round_up(size_, kShares));
}

std::int64_t Chunks::begin(std::int64_t chunk) const {
  if (unit_ == 0) return chunk == size_ ? count_ : chunk * grain_;
  return std::min(count_, (units_ / size_ * chunk + units_ % size_ * chunk / size_) * unit_);
}

namespace {

// Reserves the address space that the stacks of threads must leave to the work where it is limited: enough for one
// arena of glibc's malloc, which takes 64 MiB as soon as a thread allocates, and for 32 MiB beside it.
class RoomForWork {
 public:
  RoomForWork() : address_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~RoomForWork() {
    if (address_ != MAP_FAILED) munmap(address_, kBytes);
  }
  RoomForWork(const RoomForWork&) = delete;
  RoomForWork& operator=(const RoomForWork&) = delete;

 private:
  static constexpr std::size_t kBytes = std::size_t{96} << 20;
  void* address_;
};

}  // namespace

ThreadPool::ThreadPool(int cores) : cores_(std::max(1, cores)), state_(std::make_unique<State>(cores_)) {
  std::vector<pthread_t>& workers = state_->workers;
  workers.reserve(static_cast<std::size_t>(cores_ - 1));
  State* const state = state_.get();
  const RoomForWork room;
  try {
    while (static_cast<int>(workers.size()) + 1 < cores_) {
      const int number = static_cast<int>(workers.size()) + 1;
      workers.push_back(start_worker_thread([state, number] { state->worker_loop(number, state->all); }));
    }
  } catch (const std::exception& error) {  // there are no more threads, or no memory for their stacks
    const int wanted = std::exchange(cores_, static_cast<int>(workers.size()) + 1);
    warn_of_missing_threads(cores_, wanted, error.what());
    state_->ledger.remove_cores(wanted - cores_);
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->all.work_arrived.notify_all();
  state_->idling.work_arrived.notify_all();
  for (const pthread_t worker : state_->workers) pthread_join(worker, nullptr);
}

ThreadPool& ThreadPool::process() {
  // Never destroyed: threads may still be inside it while static objects die.
  static ThreadPool* pool = [] {
    const int threads = threads_by_environment();
    return new ThreadPool(threads > 0 ? threads : cpu_info().usable_cores);
  }();
  return *pool;
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, int max_threads, RangeFunction body) {
  if (count <= 0) return;
  Task task(count, grain, body, state_->ledger, *state_);
  const int limit = max_threads > 0 ? std::min(max_threads, cores_) : cores_;
  const int helpers = static_cast<int>(std::min<std::int64_t>(limit, task.pieces.size())) - 1;
  const bool nested = inside_parallel_for;
  inside_parallel_for = true;
  task.cut(nested ? 1 : helpers + 1);
  if (!nested) {
    task.spans = recorded_loops();
    if (task.priority == Priority::background && background_idles()) {
      if (!state_->split.load(std::memory_order_acquire)) state_->hire_idling(cores_);
      task.idles = state_->split.load(std::memory_order_acquire);
    }
    task.most_helpers = helpers;
    if (helpers > 0 && task.priority == Priority::background) task.processors.add_current();
    if (helpers > 0) state_->invite(task);
  }
  task.work(0);
  state_->wait_for_helpers(task);
  inside_parallel_for = nested;
  if (task.failed.load()) std::rethrow_exception(task.error);
}

ThreadPool::CoreLease::CoreLease(ThreadPool& pool, Priority priority, Clock& clock, int threads)
    : pool_(&pool),
      holder_{.priority = priority,
              .clock = &clock,
              .threads = threads > 0 ? std::min(threads, pool.cores()) : pool.cores()},
      outermost_(current_holder == nullptr) {
  acquire();
}

ThreadPool::CoreLease::~CoreLease() {
  release();
}

void ThreadPool::CoreLease::acquire() {
  if (!outermost_ || holds_) return;
  pool_->state_->ledger.acquire(holder_);
  if (holder_.priority == Priority::realtime) ++pool_->state_->realtime_runs;
  current_ledger = &pool_->state_->ledger;
  current_holder = &holder_;
  holds_ = true;
}

void ThreadPool::CoreLease::release() {
  if (!holds_) return;
  holds_ = false;
  current_holder = nullptr;
  if (holder_.priority == Priority::realtime) --pool_->state_->realtime_runs;
  pool_->state_->ledger.release(holder_);
}

void ThreadPool::CoreLease::take_turns() {
  if (holds_) pool_->state_->ledger.take_turns(holder_);
}

int ThreadPool::CoreLease::cores() const {
  return holds_ ? pool_->state_->ledger.cores_of(holder_) : 0;
}

void detail::yield_core() {
  see_to_own_duty();
  if (current_holder != nullptr && current_ledger->is_wanted(current_holder->priority))
    current_ledger->yield(*current_holder);
}

WithoutOwnCore::WithoutOwnCore() : holds_(current_holder != nullptr) {
  if (holds_) current_ledger->pause(*current_holder);
}

WithoutOwnCore::~WithoutOwnCore() {
  if (holds_) current_ledger->resume(*current_holder);
}

}  // namespace tessera::base
