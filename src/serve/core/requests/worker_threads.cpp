#include "serve/core/requests/worker_threads.h"

#include <system_error>

#include "base/error.h"
#include "base/threads/short_slices.h"

namespace tessera::serve {

void start_workers(std::vector<std::thread>& threads, int count, const std::function<void()>& work,
                   const std::function<void()>& stop) {
  try {
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      threads.emplace_back([work] {
        base::ask_for_usual_slices();  // a request to load the model came to a thread with short ones
        work();
      });
  } catch (const std::system_error& error) {
    stop();
    for (std::thread& thread : threads) thread.join();
    const std::size_t started = threads.size();
    threads.clear();
    fail(ErrorKind::over_budget,
         "the model needs {} threads, and the system gave {} ({}): raise its limit of processes or memory", count,
         started, error.what());
  }
}

}  // namespace tessera::serve
