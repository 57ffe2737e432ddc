// The plans of a program by the shapes of its inputs. A plan is made without any lock that a run with a plan needs, and
// without a core: runs whose plans exist go on meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/stop_signal.h"
#include "tessera/clock.h"

namespace tessera::runtime {

struct PreparedPlan;

// Thread-safe.
class PlanCache {
 public:
  using Key = std::vector<std::int64_t>;
  using Plan = std::shared_ptr<PreparedPlan>;

  // The plan if it is there, else null. It counts as used.
  Plan find(const Key& key);

  // The plan, made by `make` if it is not there. If another thread is making it, the caller waits for that instead, in
  // the time of `clock`, and makes it only if the other one fails. `too_many` is asked with the number of plans whether
  // the least recently used one is to be forgotten; the latest always stays. No more threads make plans at a time than
  // the process has cores. The caller holds no core. Throws what `make` throws, and what `stop` does (null: nothing)
  // while the caller waits.
  Plan find_or_make(const Key& key, Clock& clock, const std::function<Plan()>& make,
                    const std::function<bool(std::size_t)>& too_many, const base::StopSignal* stop = nullptr);

  std::vector<Plan> all() const;

 private:
  // How soon a run that waits for another one's plan finds that it is to stop.
  static constexpr std::int64_t kStopCheckNs = 10'000'000;

  struct InTheMaking {
    bool ended = false;
    Plan plan;  // null: it could not be made
    std::vector<Clock::Signal*> waiting;
  };

  // Until the plan is there or could not be made; with the lock at the beginning and the end.
  static void wait_for(InTheMaking& making, std::unique_lock<std::mutex>& lock, Clock::Signal& signal, Clock& clock,
                       const base::StopSignal* stop);
  Plan find_locked(const Key& key);
  void insert_locked(const Key& key, const Plan& plan, const std::function<bool(std::size_t)>& too_many);
  void end(const Key& key, InTheMaking& making, const Plan& plan, const std::function<bool(std::size_t)>& too_many);

  mutable std::mutex mutex_;
  std::map<Key, std::pair<Plan, std::list<Key>::iterator>> plans_;
  std::list<Key> recently_used_;  // most recent first
  std::map<Key, std::shared_ptr<InTheMaking>> in_the_making_;
};

}  // namespace tessera::runtime
