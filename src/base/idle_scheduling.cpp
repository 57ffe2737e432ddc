#include "base/idle_scheduling.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <mutex>

#include "base/worker_thread.h"

namespace tessera::base {
namespace {

std::atomic<bool> idles{false};
thread_local bool thread_idles = false;

// Threads that are started by an idling one do not idle.
bool set_policy(int policy) {
  const sched_param none{};
  return sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none) == 0;
}

bool may_come_back() {
  bool may = false;
  const pthread_t probe = start_worker_thread([&] { may = set_policy(SCHED_IDLE) && set_policy(SCHED_OTHER); });
  pthread_join(probe, nullptr);
  return may;
}

}  // namespace

bool let_background_idle() {
  static std::once_flag once;
  std::call_once(once, [] { idles = sched_getscheduler(0) == SCHED_OTHER && may_come_back(); });
  return idles;
}

bool background_idles() {
  return idles.load(std::memory_order_relaxed);
}

void begin_to_idle() {
  if (!thread_idles) thread_idles = set_policy(SCHED_IDLE);
}

void end_to_idle() {
  if (thread_idles) thread_idles = !set_policy(SCHED_OTHER);
}

}  // namespace tessera::base
