// Resources that only kernels on the host use: the threads of this machine.
#pragma once

#include <algorithm>

#include "base/threads/thread_pool.h"

namespace tessera::backends {

struct HostResources {
  base::ThreadPool* pool = nullptr;  // null: only the calling thread
  int max_threads = 0;               // 0: all threads of the pool

  // The number of threads that a parallel loop of the run may use, the calling one included.
  int threads() const {
    if (pool == nullptr) return 1;
    return max_threads > 0 ? std::min(max_threads, pool->cores()) : pool->cores();
  }
};

}  // namespace tessera::backends
