#include "gil.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace tessera::python {

namespace {

std::atomic<bool> others_refused{false};
std::atomic<int> taking{0};  // threads that may take the lock and are waiting for it

enum class IsMain : char { unknown, yes, no };
thread_local IsMain is_main = IsMain::unknown;

bool is_main_thread() {
  // In the child, the thread that forked is the main thread.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { is_main = IsMain::unknown; });
  (void)registered;
  if (is_main == IsMain::unknown) is_main = ::syscall(SYS_gettid) == ::getpid() ? IsMain::yes : IsMain::no;
  return is_main == IsMain::yes;
}

// The interval between checks for signals: short enough that people notice no delay, and long enough to cost nothing.
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
// So many yield points of a scope pass before the clock is read: a run of a few small layers has no more of them, and
// takes no longer than reading the clock as often.
constexpr int kQuickNets = 4;
// The fraction of a run's time, one in so many, that may be spent waiting for the lock while other Python threads hold
// it.
constexpr int kWaitingShare = 20;

thread_local bool in_handler = false;

}  // namespace

bool handles_signal() {
  return in_handler;
}

bool may_take_gil() {
  return !others_refused.load() || is_main_thread();
}

void refuse_other_threads() {
  others_refused.store(true);
  // Threads that are already waiting get the lock before the interpreter is torn down.
  PyThreadState* state = PyEval_SaveThread();
  while (taking.load() > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  PyEval_RestoreThread(state);
}

WithoutGil::~WithoutGil() {
  taking.fetch_add(1);
  if (!may_take_gil()) {
    taking.fetch_sub(1);
    // Python would end this thread by unwinding its stack, which destructors would not survive.
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  taking.fetch_sub(1);
}

SignalScope::SignalScope(const Cancellation* given) : given_(given) {
  if (!is_main_thread()) return;
  if (given_ != nullptr && given_->flag().load(std::memory_order_relaxed)) own_.cancel();
  duty_.emplace(*this);
}

void SignalScope::see_to() noexcept {
  if (given_ != nullptr && given_->flag().load(std::memory_order_relaxed)) own_.cancel();
  if (raised_.has_value()) return;
  if (asked_ < kQuickNets) {
    ++asked_;
    return;
  }
  const Clock::time_point now = Clock::now();
  if (next_look_ == Clock::time_point()) next_look_ = now + kBetweenLooks;
  if (now < next_look_) return;
  const WithGil lock;
  const Clock::time_point locked = Clock::now();
  const bool outer = std::exchange(in_handler, true);
  const bool raised = PyErr_CheckSignals() != 0;
  in_handler = outer;
  if (raised) {
    raised_.emplace();
    own_.cancel();
  }
  next_look_ = Clock::now() + std::max<Clock::duration>(kBetweenLooks, kWaitingShare * (locked - now));
}

void SignalScope::raise_pending() {
  if (!raised_.has_value()) return;
  nanobind::python_error error = std::move(*raised_);
  raised_.reset();
  throw error;
}

}  // namespace tessera::python
