// Releases Python's global interpreter lock around long calls, and runs Python's signal handlers during them.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "base/threads/thread_duty.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::python {

// Returns whether this thread may take the lock: while the interpreter is being torn down, only its own thread may.
bool may_take_gil();
// After this call, other threads that want the lock wait forever, because the process is ending.
void refuse_other_threads();

// Releases the lock for its lifetime. If the interpreter is torn down meanwhile, the thread never returns.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Takes the lock for its lifetime, in a thread of the pool, or where it is not known whether the thread has it.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Returns whether this thread is running a signal handler that was called in the middle of its own computation.
bool handles_signal();

// Returns the result of `work()`, which is called without the lock. Work that a signal handler starts runs on a thread
// of its own, because the interrupted kernel has its buffers and tile registers on this one.
template <typename Work>
auto without_gil(Work&& work) {
  const WithoutGil released;
  if (!handles_signal()) return work();
  const base::WithoutOwnCore waiting;
  return std::async(std::launch::async, [&] { return work(); }).get();
}

// For its lifetime, interrupts computations of the main thread now and then to run Python's signal handlers, as Python
// does between two instructions. If a handler raises an exception, the work is cancelled. Does nothing in other
// threads, in which Python runs no handlers. Can be nested. Must be constructed and destroyed with the lock.
class SignalScope final : public base::ThreadDuty {
 public:
  // `given` is a cancellation of the caller, which also cancels the work.
  explicit SignalScope(const Cancellation* given = nullptr);
  ~SignalScope() = default;
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // The cancellation that the work must check.
  const Cancellation* cancellation() const { return duty_ ? &own_ : given_; }
  // Throws the exception that a handler raised, if there is one (nb::python_error). To be called, with the lock, after
  // the work has ended.
  void raise_pending();

  void see_to() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;

  const Cancellation* given_;
  Cancellation own_;
  std::optional<nanobind::python_error> raised_;
  Clock::time_point next_look_;
  int asked_ = 0;                     // number of yield points of this scope so far
  std::optional<base::OnDuty> duty_;  // only in the main thread
};

// Returns the result of `work(const Cancellation*)`, which is called without the lock. Throws the exception that a
// signal handler raised meanwhile.
template <typename Work>
auto interruptible(Work&& work, const Cancellation* given = nullptr) {
  SignalScope scope(given);
  try {
    auto result = without_gil([&] { return work(scope.cancellation()); });
    scope.raise_pending();
    return result;
  } catch (const Error&) {
    scope.raise_pending();
    throw;
  }
}

}  // namespace tessera::python
