// Python's global interpreter lock around calls that take long, and Ctrl-C during them.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <utility>

#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::python {

// Whether this thread may take the lock: not once the interpreter is being torn down, when only its own thread may.
bool may_take_gil();
// From here on, other threads that want the lock wait for ever instead (the process is ending).
void refuse_other_threads();

// Gives the lock back while it lives. A thread whose interpreter is torn down meanwhile never returns.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Takes the lock in a thread of the pool, or where it is not known whether this thread has it.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// While it lives, Ctrl-C in the main thread cancels what this thread computes. Nests. Needs the lock.
class InterruptScope {
 public:
  // Cancels `given`, or a cancellation of its own.
  explicit InterruptScope(Cancellation* given = nullptr);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const Cancellation* cancellation() const { return target_; }
  // Whether the signal came; calls Python's handlers for it then, which usually throws nb::python_error
  // (KeyboardInterrupt). Needs the lock.
  bool handle_signal();

 private:
  Cancellation own_;
  Cancellation* target_;
  bool is_main_;
  InterruptScope* outer_ = nullptr;
  std::atomic<bool> signalled_{false};

  friend void on_interrupt_signal();
};

// Calls `work(const Cancellation*)` without the lock. Where Ctrl-C stops it, throws KeyboardInterrupt; where Python's
// handler for the signal does not raise, the work is done again from its beginning.
template <typename Work>
auto interruptible(Work&& work, Cancellation* given = nullptr) {
  while (true) {
    InterruptScope scope(given);
    try {
      const WithoutGil released;
      return work(scope.cancellation());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cancelled || !scope.handle_signal() || given != nullptr) throw;
    }
  }
}

}  // namespace tessera::python
