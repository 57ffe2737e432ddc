// Places within long work where a more important job may take the core.
#pragma once

#include <atomic>

namespace tessera::base {

namespace detail {
// How many pools have a run waiting that is more important than one that computes.
extern std::atomic<int> preempting_pools;
void yield_core();
}  // namespace detail

// If a run of a higher class waits for a core, the calling thread gives it the core that it holds and returns when it
// has a core again; what it was working on is untouched meanwhile. Costs one load when nobody waits, and does nothing
// on a thread that holds no core. Must not be called under a lock that another run may need.
inline void yield_point() {
  if (detail::preempting_pools.load(std::memory_order_relaxed) > 0) [[unlikely]]
    detail::yield_core();
}

}  // namespace tessera::base
