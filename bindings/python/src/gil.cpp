#include "gil.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace tessera::python {

namespace {

std::atomic<bool> others_refused{false};
std::atomic<int> taking{0};  // threads that were allowed to take the lock and wait for it
std::atomic<InterruptScope*> innermost{nullptr};
struct sigaction chained;  // the handler that Python had

bool is_main_thread() {
  static thread_local const bool is_main = ::syscall(SYS_gettid) == ::getpid();
  return is_main;
}

}  // namespace

// Runs as a signal handler.
void on_interrupt_signal() {
  if (InterruptScope* scope = innermost.load()) {
    scope->signalled_.store(true);
    scope->target_->cancel();
  }
}

namespace {

void handle_interrupt(int signal, siginfo_t* info, void* context) {
  on_interrupt_signal();
  if ((chained.sa_flags & SA_SIGINFO) != 0) chained.sa_sigaction(signal, info, context);
  else chained.sa_handler(signal);
}

// Puts our handler before Python's, which may have been set anew since. Looks at most ten times a second, because a
// system call costs as much as a small net's run.
void watch_interrupts() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point next_look;  // of the main thread alone
  const Clock::time_point now = Clock::now();
  if (now < next_look) return;
  next_look = now + std::chrono::milliseconds(100);
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0) return;
  const bool has_information = (current.sa_flags & SA_SIGINFO) != 0;
  if (has_information && current.sa_sigaction == handle_interrupt) return;
  if (!has_information && (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN)) return;
  chained = current;
  struct sigaction ours = current;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = handle_interrupt;
  sigaction(SIGINT, &ours, nullptr);
}

}  // namespace

bool may_take_gil() {
  return !others_refused.load() || is_main_thread();
}

void refuse_other_threads() {
  others_refused.store(true);
  // Those that wait already get the lock before the interpreter is torn down.
  PyThreadState* state = PyEval_SaveThread();
  while (taking.load() > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  PyEval_RestoreThread(state);
}

WithoutGil::~WithoutGil() {
  taking.fetch_add(1);
  if (!may_take_gil()) {
    taking.fetch_sub(1);
    // Python would end this thread by unwinding its stack, which destructors do not survive.
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  taking.fetch_sub(1);
}

InterruptScope::InterruptScope(Cancellation* given)
    : target_(given != nullptr ? given : &own_), is_main_(is_main_thread()) {
  if (!is_main_) return;
  watch_interrupts();
  outer_ = innermost.exchange(this);
}

InterruptScope::~InterruptScope() {
  if (is_main_) innermost.store(outer_);
}

bool InterruptScope::handle_signal() {
  if (!signalled_.load()) return false;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  return true;
}

}  // namespace tessera::python
