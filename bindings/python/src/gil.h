// Python's global interpreter lock around calls that take long, and Python's handlers of signals during them.
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

// Returns whether this thread runs a signal handler that it called in the middle of its own computation.
bool handles_signal();

// The result of `work()`, which is called without the lock. What a handler of a signal asks for is computed on a thread
// of its own, because the kernel that it interrupts has its buffers and tiles on this one.
template <typename Work>
auto without_gil(Work&& work) {
  const WithoutGil released;
  if (!handles_signal()) return work();
  const base::WithoutOwnCore waiting;
  return std::async(std::launch::async, [&] { return work(); }).get();
}

// While it lives, what the main thread computes is interrupted now and then to run Python's handlers of signals, as
// Python would between two instructions. Where a handler raises, the work is cancelled. Does nothing in other threads,
// in which Python runs no handlers. Nests. Made and destroyed with the lock.
class SignalScope final : public base::ThreadDuty {
 public:
  // `given`: a cancellation of the caller's, which cancels the work as well.
  explicit SignalScope(const Cancellation* given = nullptr);
  ~SignalScope() = default;
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  // The cancellation that the work checks.
  const Cancellation* cancellation() const { return duty_ ? &own_ : given_; }
  // Throws what a handler raised, if one did (nb::python_error). To be called, with the lock, once the work has ended.
  void raise_pending();

  void see_to() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;

  const Cancellation* given_;
  Cancellation own_;
  std::optional<nanobind::python_error> raised_;
  Clock::time_point next_look_;
  int asked_ = 0;                     // of this scope's yield points
  std::optional<base::OnDuty> duty_;  // of the main thread
};

// The result of `work(const Cancellation*)`, which is called without the lock. Throws what a handler of a signal raised
// meanwhile.
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
