// Threads of a model that take work from its queue.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace tessera::serve {

// Starts `count` threads that run `work`. Where the system gives no more threads (a limit of processes or of memory),
// those that were started are ended by `stop`, after which `work` must return, and Error(over_budget) is thrown.
void start_workers(std::vector<std::thread>& threads, int count, const std::function<void()>& work,
                   const std::function<void()>& stop);

}  // namespace tessera::serve
