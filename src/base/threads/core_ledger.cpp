#include "base/threads/core_ledger.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/threads/idle_scheduling.h"
#include "base/threads/yield_point.h"

namespace tessera::base {

std::atomic<int> detail::preempting_pools{0};

namespace {

// A thread that began its last run at most so long after the run before is expected to do so again.
constexpr std::int64_t kSoonNs = 50'000;
// A run that is not over after its turn goes on for as long again, because a run that is interrupted waits twice.
constexpr std::int64_t kMostTurnNs = 2 * CoreLedger::kTurnNs;
// How long a core is kept for a thread that is expected back, and how often a waiting thread looks whether it came.
constexpr std::int64_t kKeepNs = 200'000, kLookNs = 1'000'000;

// How long a realtime run waits for its further cores before it begins, and how often it looks.
constexpr std::int64_t kMostReserveNs = 1'000'000, kReserveLookNs = 20'000;

// How the calling thread used this process's cores in earlier runs.
struct Habit {
  const void* ledger = nullptr;
  const Clock* clock = nullptr;
  std::int64_t released_ns = 0;
  bool returns = false;
  std::int64_t run_ns = 0;  // how long its last run computed
};
thread_local Habit habit;

// Where the calling thread waits, in the time of the holder's clock.
class WaitingPlace {
 public:
  explicit WaitingPlace(Clock& clock) {
    if (&clock != &Clock::steady()) other_ = clock.make_signal();
    else if (steady_ == nullptr) steady_ = clock.make_signal();
  }
  Clock::Signal& signal() const { return other_ != nullptr ? *other_ : *steady_; }

 private:
  static thread_local std::unique_ptr<Clock::Signal> steady_;
  std::unique_ptr<Clock::Signal> other_;
};
thread_local std::unique_ptr<Clock::Signal> WaitingPlace::steady_;

}  // namespace

CoreLedger::~CoreLedger() {
  TESSERA_ASSERT(waiting_count_.load() == 0, "no thread waits for a core of a pool that goes");
  if (wanted_.load() >= 0) --detail::preempting_pools;
}

void CoreLedger::acquire(CoreHolder& holder) {
  const std::int64_t now = holder.clock->now_ns();
  const bool knows = habit.ledger == this && habit.clock == holder.clock;
  const bool returns = knows && now - habit.released_ns < kSoonNs;
  holder.expected_ns = knows ? habit.run_ns : 0;
  holder.computed_ns = 0;
  holder.core_since_ns = now;
  habit = {this, holder.clock, now, returns, holder.expected_ns};
  std::unique_lock lock(mutex_);
  if (take_kept(holder, returns)) return;
  if (!kept_.empty()) drop_kept(holder.priority, now);
  holder.turn_start_ns = now;
  const bool reserves = holder.priority == Priority::realtime && holder.threads > 1;
  if (waiting_count_ == 0 && free_ > 0 && reserving_.empty() && !reserves) {
    --free_;
    begin_to_hold(holder.priority);
    return;
  }
  wait_in_line(lock, holder, false);
  if (!reserves) return;
  reserving_.push_back(&holder);
  grant();
  // The thread waits instead of computing, because the threads that are to yield need a processor to reach their yield
  // points on.
  const std::int64_t end = holder.clock->now_ns() + kMostReserveNs;
  while (wanted_ == static_cast<int>(Priority::realtime) && holder.clock->now_ns() < end &&
         holder.reserved < holder.threads - 1) {
    lock.unlock();
    holder.clock->sleep_until(holder.clock->now_ns() + kReserveLookNs);
    lock.lock();
  }
}

void CoreLedger::release(CoreHolder& holder) {
  const std::int64_t now = holder.clock->now_ns();
  habit.released_ns = now;
  habit.run_ns = holder.computed_ns + now - holder.core_since_ns;
  const std::lock_guard lock(mutex_);
  if (keeps(holder, now)) return;
  free_core_of(holder);
}

void CoreLedger::pause(CoreHolder& holder) {
  const std::lock_guard lock(mutex_);
  free_core_of(holder);
}

void CoreLedger::resume(CoreHolder& holder) {
  std::unique_lock lock(mutex_);
  wait_in_line(lock, holder, true);
  if (holder.priority == Priority::realtime && holder.threads > 1) {
    reserving_.push_back(&holder);
    grant();
  }
}

void CoreLedger::yield(CoreHolder& holder) {
  std::unique_lock lock(mutex_);
  if (!is_wanted(holder.priority)) return;
  free_core_of(holder);
  wait_in_line(lock, holder, true);
}

void CoreLedger::take_turns(CoreHolder& holder) {
  if (!has_waiting()) return;
  yield_point();
  const std::int64_t now = holder.clock->now_ns();
  if (now - holder.turn_start_ns < kMostTurnNs || holder.priority == Priority::realtime) return;
  std::unique_lock lock(mutex_);
  if (waiting(holder.priority).empty() || ends_before_waiting(holder, now)) return;
  free_core_of(holder);
  wait_in_line(lock, holder, false);
}

int CoreLedger::borrow(CoreHolder* owner, Priority priority, int wanted) {
  const bool reserves = owner != nullptr && priority == Priority::realtime;
  if (!reserves && !has_idle()) return 0;
  const std::lock_guard lock(mutex_);
  int borrowed = 0;
  if (reserves) {
    borrowed = std::min(wanted, owner->reserved);
    owner->reserved -= borrowed;
  }
  if (waiting_count_ == 0) {
    const int idle = std::min(wanted - borrowed, std::max(free_.load(), 0));
    free_ -= idle;
    borrowed += idle;
  }
  if (reserves) owner->lent += borrowed;
  holding_[static_cast<std::size_t>(priority)] += borrowed;
  return borrowed;
}

void CoreLedger::give_back(CoreHolder* owner, Priority priority, int count) {
  const std::lock_guard lock(mutex_);
  holding_[static_cast<std::size_t>(priority)] -= count;
  free_ += count;
  if (owner != nullptr && priority == Priority::realtime) owner->lent -= count;
  grant();
}

int CoreLedger::cores_of(const CoreHolder& holder) {
  const std::lock_guard lock(mutex_);
  return 1 + holder.reserved + holder.lent;
}

bool CoreLedger::take_kept(CoreHolder& holder, bool returns) {
  const auto found = std::ranges::find(kept_, static_cast<const void*>(&habit), &Kept::thread);
  if (found == kept_.end()) return false;
  const Kept kept = *found;
  kept_.erase(found);
  ++free_;
  if (returns && kept.priority == holder.priority && !is_wanted(holder.priority)) {
    --free_;
    holder.turn_start_ns = kept.turn_start_ns;
    begin_to_hold(holder.priority);
    return true;
  }
  grant();
  return false;
}

// Whether the run is expected to end earlier than any waiting run of its class would if that had the core now. After
// half as long again as the thread's last run, no end is expected: it must be a different run.
bool CoreLedger::ends_before_waiting(const CoreHolder& holder, std::int64_t now_ns) {
  const std::int64_t computed = holder.computed_ns + now_ns - holder.core_since_ns;
  if (now_ns - holder.turn_start_ns >= kLongestTurnNs || 2 * computed >= 3 * holder.expected_ns) return false;
  const std::int64_t remaining = holder.expected_ns - computed;
  return std::ranges::all_of(waiting(holder.priority), [&](const Waiter* waiter) {
    return remaining < waiter->holder->expected_ns - waiter->holder->computed_ns;
  });
}

// Whether the core of a thread whose run has ended is kept for its next run. If so, keeps it.
bool CoreLedger::keeps(const CoreHolder& holder, std::int64_t now_ns) {
  if (!habit.returns || holder.priority == Priority::realtime || now_ns - holder.turn_start_ns >= kTurnNs) return false;
  if (waiting(holder.priority).empty() || is_wanted(holder.priority)) return false;
  end_to_hold(holder.priority);
  kept_.push_back({&habit, holder.priority, holder.turn_start_ns, now_ns + kKeepNs});
  Waiter& first = *waiting(holder.priority).front();
  if (!std::exchange(first.looks_after_kept, true)) first.signal->notify();
  return true;
}

// Frees the cores that were kept too long, and those kept for runs of a class below `below`.
void CoreLedger::drop_kept(Priority below, std::int64_t now_ns) {
  const auto dropped =
      std::erase_if(kept_, [&](const Kept& kept) { return kept.until_ns <= now_ns || kept.priority < below; });
  free_ += static_cast<int>(dropped);
  if (dropped > 0) grant();
}

// Frees one core that is set aside for the helpers of a running holder. Returns false if there is none.
bool CoreLedger::take_from_reserve() {
  for (CoreHolder* owner : reserving_) {
    if (owner->reserved == 0) continue;
    --owner->reserved;
    ++free_;
    return true;
  }
  return false;
}

void CoreLedger::hand_to_first(Priority priority) {
  Waiter& first = *waiting(priority).front();
  waiting(priority).pop_front();
  --waiting_count_;
  --free_;
  begin_to_hold(priority);
  first.granted = true;
  first.signal->notify();
}

// Gives free cores to waiting threads. If background threads are idle-scheduled, a realtime run takes their cores
// without waiting, and free_ is negative until they reach their next yield point.
void CoreLedger::grant() {
  const auto available = [&](const CoreHolder& holder) {
    const bool takes = background_idles() && holder.clock == &Clock::steady();
    return free_.load() + (takes ? holding_[static_cast<std::size_t>(Priority::background)] : 0);
  };
  const std::deque<Waiter*>& realtime = waiting(Priority::realtime);
  while (!realtime.empty() && (available(*realtime.front()->holder) > 0 || take_from_reserve()))
    hand_to_first(Priority::realtime);
  for (CoreHolder* owner : reserving_) {
    const int most = std::max(available(*owner), 0);
    const int missing = std::clamp(owner->threads - 1 - owner->reserved - owner->lent, 0, most);
    owner->reserved += missing;
    free_ -= missing;
  }
  for (const Priority priority : {Priority::standard, Priority::background}) {
    while (free_ > 0 && !waiting(priority).empty()) hand_to_first(priority);
  }
  update_wanted();
}

void CoreLedger::update_wanted() {
  int wanted = -1;
  for (int i = 0; i < kPriorities; ++i) {
    if (!waiting_[static_cast<std::size_t>(i)].empty()) wanted = i;
  }
  const auto lacks_cores = [](const CoreHolder* owner) { return owner->reserved + owner->lent < owner->threads - 1; };
  if (std::ranges::any_of(reserving_, lacks_cores)) wanted = static_cast<int>(Priority::realtime);
  // free_ is negative until background threads have left their cores
  if (free_ < 0) wanted = std::max(wanted, static_cast<int>(Priority::standard));
  bool lower_computes = false;
  for (int i = 0; i < wanted; ++i) lower_computes = lower_computes || holding_[static_cast<std::size_t>(i)] > 0;
  if (!lower_computes) wanted = -1;
  const int before = wanted_.exchange(wanted, std::memory_order_relaxed);
  if (before < 0 && wanted >= 0) ++detail::preempting_pools;
  if (before >= 0 && wanted < 0) --detail::preempting_pools;
}

// Gives the holder's core, and those set aside for its helpers, to whoever is next.
void CoreLedger::free_core_of(CoreHolder& holder) {
  TESSERA_ASSERT(holder.lent == 0, "helpers leave before the core of their caller is given up");
  end_to_hold(holder.priority);
  holder.computed_ns += holder.clock->now_ns() - holder.core_since_ns;
  free_ += 1 + std::exchange(holder.reserved, 0);
  std::erase(reserving_, &holder);
  grant();
}

void CoreLedger::wait_in_line(std::unique_lock<std::mutex>& lock, CoreHolder& holder, bool first) {
  const WaitingPlace place(*holder.clock);
  Waiter waiter{&holder, &place.signal()};
  std::deque<Waiter*>& line = waiting(holder.priority);
  if (first) line.push_front(&waiter);
  else line.push_back(&waiter);
  ++waiting_count_;
  grant();
  while (!waiter.granted) {
    const bool looks = waiter.looks_after_kept && !line.empty() && line.front() == &waiter;
    lock.unlock();
    if (looks) waiter.signal->wait_until(holder.clock->now_ns() + kLookNs);
    else waiter.signal->wait();
    lock.lock();
    if (looks && !waiter.granted) drop_kept(Priority::background, holder.clock->now_ns());
  }
  holder.core_since_ns = holder.clock->now_ns();
  if (!first) holder.turn_start_ns = holder.core_since_ns;
}

}  // namespace tessera::base
