// Tells long work whether it should go on; it asks between its parts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/threads/yield_point.h"
#include "tessera/clock.h"

namespace tessera::base {

class StopSignal {
 public:
  // `cancelled` may be null, and a limit of 0 means none. Time counts from now, on `clock`, which outlives the signal.
  StopSignal(const std::atomic<bool>* cancelled, std::chrono::nanoseconds time_limit, Clock& clock = Clock::steady());

  // Lets a more important run have the core first (see yield_point). Throws Error(cancelled) once the flag is set and
  // Error(over_budget) once the time is over. Thread-safe.
  void check() const {
    yield_point();
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) report_cancelled();
    if (limit_.count() > 0 && clock_->now_ns() - start_ns_ > limit_.count()) report_late();
  }

 private:
  [[noreturn]] static void report_cancelled();
  [[noreturn]] void report_late() const;

  const std::atomic<bool>* cancelled_;
  const std::chrono::nanoseconds limit_;
  Clock* clock_;
  const std::int64_t start_ns_ = clock_->now_ns();
};

}  // namespace tessera::base
