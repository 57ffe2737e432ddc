#include "base/threads/idle_scheduling.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <mutex>

#include "base/threads/worker_thread.h"

namespace tessera::base {
namespace {

std::atomic<bool> idles{false};
thread_local bool thread_idles = false;

// Sets the calling thread's policy and returns whether that succeeded. Threads that it starts do not inherit
// SCHED_IDLE.
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

std::pair<std::uint64_t, bool> OccupiedProcessors::add() {
  const int processor = sched_getcpu();
  if (processor < 0 || processor >= 64) return {0, false};
  const std::uint64_t bit = std::uint64_t{1} << processor;
  return {bit, (mask_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0};
}

void OccupiedProcessors::move_to_free_one() {
  if (!add().second) return;
  cpu_set_t allowed, free;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  free = allowed;
  const std::uint64_t occupied = mask_.load(std::memory_order_relaxed);
  for (int processor = 0; processor < 64; ++processor) {
    if ((occupied >> processor & 1) != 0) CPU_CLR(processor, &free);
  }
  if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof(free), &free) != 0) return;
  sched_setaffinity(0, sizeof(allowed), &allowed);  // the thread has moved; the system may move it again
  add();
}

}  // namespace tessera::base
