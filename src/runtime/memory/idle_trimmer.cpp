#include "runtime/memory/idle_trimmer.h"

#include <malloc.h>
#include <pthread.h>

#include <exception>

#include "base/threads/worker_thread.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/memory/memory.h"

namespace tessera::runtime {

IdleTrimmer& IdleTrimmer::process() {
  static IdleTrimmer& trimmer = *new IdleTrimmer;  // its thread outlives every static object
  return trimmer;
}

void IdleTrimmer::wake() {
  if (awake_.load(std::memory_order_relaxed) || awake_.exchange(true, std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  try {
    if (!started_) pthread_detach(base::start_worker_thread([this] { work(); }));
    started_ = true;
  } catch (const std::exception&) {
    // Without a thread idle memory waits to be used again; the next idle block tries anew. Who gives a block back may
    // be a destructor.
    awake_.store(false, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void IdleTrimmer::set_period(std::chrono::milliseconds period) {
  std::lock_guard lock(mutex_);
  period_ = period;
  changed_.notify_all();
}

void IdleTrimmer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return awake_.load(std::memory_order_relaxed); });
    const std::chrono::milliseconds period = period_;
    if (changed_.wait_for(lock, period, [&] { return period_ != period; })) continue;
    // Cleared first: a block that comes back meanwhile wakes the next period.
    awake_.store(false, std::memory_order_relaxed);
    lock.unlock();
    const std::int64_t freed =
        arena_blocks().end_period() + result_blocks().end_period() + end_period_of_device_blocks();
    if (freed > 0) malloc_trim(0);
    const bool more = arena_blocks().idle_bytes() + result_blocks().idle_bytes() + idle_device_bytes() > 0;
    lock.lock();
    if (more) awake_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace tessera::runtime
