// What only kernels of a host use: the threads of this machine.
#pragma once

#include <algorithm>

#include "base/threads/thread_pool.h"

namespace tessera::backends {

struct HostResources {
  base::ThreadPool* pool = nullptr;  // null: the calling thread alone
  int max_threads = 0;               // 0: all of the pool

  // How many threads a parallel loop of the run may take, the calling one included.
  int threads() const {
    if (pool == nullptr) return 1;
    return max_threads > 0 ? std::min(max_threads, pool->cores()) : pool->cores();
  }
};

}  // namespace tessera::backends
