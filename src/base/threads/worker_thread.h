// Starting threads that belong to Tessera.
#pragma once

#include <pthread.h>

#include <functional>

namespace tessera::base {

// Starts a thread that runs `body`, which must not throw. The thread blocks the program's signals, so that the
// program's own threads receive them, and its stack has the same size whatever the process's limit is. Throws
// std::system_error when the system gives no more threads, and std::bad_alloc.
pthread_t start_worker_thread(std::function<void()> body);

}  // namespace tessera::base
