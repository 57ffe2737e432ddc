// Threads of Tessera's own.
#pragma once

#include <pthread.h>

#include <functional>

namespace tessera::base {

// Starts a thread that runs `body`, which must not throw. Signals stay with the threads of the program, and the stack
// has the same size whatever limit the process has. Throws std::system_error when the system gives no more threads, and
// std::bad_alloc.
pthread_t start_worker_thread(std::function<void()> body);

}  // namespace tessera::base
