// Decides which threads compute on a pool's cores, and which thread is next. Cores are counted, not named.
//
// Waiting threads are served by class (tessera::Priority), and within a class in order of arrival. A thread that
// computes gives its core up
//   - at a yield point, if a higher class waits (yield);
//   - between two steps, if another thread of its class waits and its turn of kTurnNs is over (take_turns). But a run
//     that is expected to end before any of the waiting ones would may finish: runs of equal length that interrupt each
//     other all end late, and each finds its data evicted from the caches (shortest remaining time first; Schrage, "A
//     proof of the optimality of the shortest remaining processing time discipline", 1968);
//   - at the end of its run. Threads that run models in a loop come back within microseconds: while their turn lasts,
//     the core is kept for them briefly, because waking another thread takes longer than many runs.
// For a realtime holder, the cores of its helpers stay set aside until it releases its own core.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "tessera/clock.h"
#include "tessera/gate.h"

namespace tessera::base {

// A thread that computes on a core or waits for one. Only the ledger writes the members after `threads`.
struct CoreHolder {
  Priority priority = Priority::standard;
  Clock* clock = &Clock::steady();
  int threads = 1;  // most cores that it computes on, including its own

  int reserved = 0;  // cores that are set aside for its helpers and are idle
  int lent = 0;      // cores that its helpers compute on
  std::int64_t turn_start_ns = 0;
  std::int64_t expected_ns = 0;    // how long the thread's last run computed; 0 if not known
  std::int64_t computed_ns = 0;    // how long this run had computed when it last got its core
  std::int64_t core_since_ns = 0;  // when it last got its core
};

// Thread-safe. A holder is used by one thread at a time.
class CoreLedger {
 public:
  // How long a run computes before it lets others of its class go first.
  static constexpr std::int64_t kTurnNs = 4'000'000;
  // The longest that a run computes while others of its class wait, however soon it is expected to end.
  static constexpr std::int64_t kLongestTurnNs = 100'000'000;

  explicit CoreLedger(int cores) : free_(cores) {}
  ~CoreLedger();
  CoreLedger(const CoreLedger&) = delete;
  CoreLedger& operator=(const CoreLedger&) = delete;

  // Lowers the number of cores. To be called before any thread computes.
  void remove_cores(int count) { free_ -= count; }
  // Blocks until the holder has a core.
  void acquire(CoreHolder& holder);
  void release(CoreHolder& holder);
  // Gives the core up without the expectation that the holder comes back soon. resume() goes before others of its
  // class.
  void pause(CoreHolder& holder);
  void resume(CoreHolder& holder);

  // Whether a run that is more important than `priority` waits for a core.
  bool is_wanted(Priority priority) const {
    return wanted_.load(std::memory_order_relaxed) > static_cast<int>(priority);
  }
  bool has_waiting() const { return waiting_count_.load(std::memory_order_relaxed) > 0; }
  // If a more important run waits, gives it the core and returns when the holder has one again.
  void yield(CoreHolder& holder);
  // For use between two steps: does what yield() does, and also lets waiting runs of the same class go first if the
  // holder's turn is over.
  void take_turns(CoreHolder& holder);

  // Takes up to `wanted` idle cores for helpers of a run of this priority, without overtaking anyone who waits, and
  // returns how many it took. `owner` is the holder that they help, or null if their caller holds no core; it must live
  // until they are given back.
  int borrow(CoreHolder* owner, Priority priority, int wanted);
  void give_back(CoreHolder* owner, Priority priority, int count);
  // The number of cores that the holder has: its own, those that its helpers compute on, and those set aside for them.
  int cores_of(const CoreHolder& holder);
  bool has_idle() const { return free_.load(std::memory_order_relaxed) > 0; }

 private:
  struct Waiter {
    CoreHolder* holder;
    Clock::Signal* signal;
    bool granted = false;
    bool looks_after_kept = false;  // wakes now and then to see whether a kept core has become free
  };
  // A core that is kept for the next run of the thread that held it.
  struct Kept {
    const void* thread;
    Priority priority;
    std::int64_t turn_start_ns;
    std::int64_t until_ns;
  };

  // The following are called with the mutex held.
  std::deque<Waiter*>& waiting(Priority priority) { return waiting_[static_cast<std::size_t>(priority)]; }
  void begin_to_hold(Priority priority) { ++holding_[static_cast<std::size_t>(priority)]; }
  void end_to_hold(Priority priority) { --holding_[static_cast<std::size_t>(priority)]; }
  bool ends_before_waiting(const CoreHolder& holder, std::int64_t now_ns);
  bool take_kept(CoreHolder& holder, bool returns);
  bool keeps(const CoreHolder& holder, std::int64_t now_ns);
  void drop_kept(Priority below, std::int64_t now_ns);
  bool take_from_reserve();
  void hand_to_first(Priority priority);
  void grant();
  void update_wanted();
  void free_core_of(CoreHolder& holder);
  void wait_in_line(std::unique_lock<std::mutex>& lock, CoreHolder& holder, bool first);

  std::mutex mutex_;
  std::array<std::deque<Waiter*>, kPriorities> waiting_;
  std::array<int, kPriorities> holding_{};  // threads that compute, by class
  std::vector<CoreHolder*> reserving_;
  std::vector<Kept> kept_;
  std::atomic<int> free_;              // written with the mutex held
  std::atomic<int> waiting_count_{0};  // written with the mutex held
  std::atomic<int> wanted_{-1};        // the highest class that waits for a core held by a lower one; -1 if none
};

}  // namespace tessera::base
