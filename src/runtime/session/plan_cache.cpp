#include "runtime/session/plan_cache.h"

#include <condition_variable>

#include "base/threads/thread_pool.h"

namespace tessera::runtime {
namespace {

// Planning holds no cores of the pool, so that it blocks no run; this bounds how many threads it takes.
class PlanningThreads {
 public:
  static PlanningThreads& process() {
    static PlanningThreads& threads = *new PlanningThreads(base::ThreadPool::process().cores());
    return threads;
  }
  void enter() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return free_ > 0; });
    --free_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    ++free_;
    freed_.notify_one();
  }

 private:
  explicit PlanningThreads(int most) : free_(most) {}
  std::mutex mutex_;
  std::condition_variable freed_;
  int free_;
};

// How many plans the calling thread is making: a caller that is told of tuning's progress may run another model.
thread_local int making_plans = 0;

class PlanningScope {
 public:
  PlanningScope() {
    if (making_plans++ == 0) PlanningThreads::process().enter();
  }
  ~PlanningScope() {
    if (--making_plans == 0) PlanningThreads::process().leave();
  }
  PlanningScope(const PlanningScope&) = delete;
  PlanningScope& operator=(const PlanningScope&) = delete;
};

}  // namespace

PlanCache::Plan PlanCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  return find_locked(key);
}

PlanCache::Plan PlanCache::find_locked(const Key& key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  recently_used_.splice(recently_used_.begin(), recently_used_, found->second.second);
  return found->second.first;
}

PlanCache::Plan PlanCache::find_or_make(const Key& key, Clock& clock, const std::function<Plan()>& make,
                                        const std::function<bool(std::size_t)>& too_many,
                                        const base::StopSignal* stop) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Clock::Signal> signal;
  for (;;) {
    if (Plan found = find_locked(key)) return found;
    const auto other = in_the_making_.find(key);
    if (other == in_the_making_.end()) break;
    const std::shared_ptr<InTheMaking> making = other->second;
    if (signal == nullptr) signal = clock.make_signal();
    making->waiting.push_back(signal.get());
    wait_for(*making, lock, *signal, clock, stop);
    if (making->plan != nullptr) return making->plan;
  }
  const auto making = std::make_shared<InTheMaking>();
  in_the_making_.emplace(key, making);
  lock.unlock();
  Plan plan;
  try {
    const PlanningScope planning;
    plan = make();
  } catch (...) {
    end(key, *making, nullptr, too_many);
    throw;
  }
  end(key, *making, plan, too_many);
  return plan;
}

void PlanCache::wait_for(InTheMaking& making, std::unique_lock<std::mutex>& lock, Clock::Signal& signal, Clock& clock,
                         const base::StopSignal* stop) {
  try {
    while (!making.ended) {
      lock.unlock();
      if (stop == nullptr) signal.wait();
      else signal.wait_until(clock.now_ns() + kStopCheckNs);
      lock.lock();
      if (stop != nullptr && !making.ended) stop->check();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    std::erase(making.waiting, &signal);
    throw;
  }
}

void PlanCache::insert_locked(const Key& key, const Plan& plan, const std::function<bool(std::size_t)>& too_many) {
  recently_used_.push_front(key);
  plans_.emplace(key, std::pair(plan, recently_used_.begin()));
  while (plans_.size() > 1 && too_many(plans_.size())) {
    plans_.erase(recently_used_.back());
    recently_used_.pop_back();
  }
}

void PlanCache::end(const Key& key, InTheMaking& making, const Plan& plan,
                    const std::function<bool(std::size_t)>& too_many) {
  const std::lock_guard lock(mutex_);
  if (plan != nullptr) insert_locked(key, plan, too_many);
  in_the_making_.erase(key);
  making.ended = true;
  making.plan = plan;
  for (Clock::Signal* waiting : making.waiting) waiting->notify();
}

std::vector<PlanCache::Plan> PlanCache::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Plan> plans;
  for (const auto& [key, entry] : plans_) plans.push_back(entry.first);
  return plans;
}

}  // namespace tessera::runtime
