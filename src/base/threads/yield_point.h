// Places within long work where a more important job may take the core.
#pragma once

#include <atomic>

namespace tessera::base {

namespace detail {
// The number of pools in which a run waits that is more important than one that computes.
extern std::atomic<int> preempting_pools;
void yield_core();
}  // namespace detail

// If a run of a higher class waits for a core, gives it the core that the calling thread holds and returns when the
// thread has a core again; nothing else happens to the thread's work meanwhile. Costs one load when no run waits, and
// does nothing on a thread that holds no core. Must not be called under a lock that another run may need.
inline void yield_point() {
  if (detail::preempting_pools.load(std::memory_order_relaxed) > 0) [[unlikely]]
    detail::yield_core();
}

}  // namespace tessera::base
