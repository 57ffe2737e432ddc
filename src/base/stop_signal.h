// Whether work should go on: asked between its parts by whoever may work for long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::base {

class StopSignal {
 public:
  // `cancelled` may be null, and a limit of 0 is none; time counts from now.
  StopSignal(const std::atomic<bool>* cancelled, std::chrono::nanoseconds time_limit);

  // Throws Error(cancelled) once the flag is set, Error(over_budget) once the time is over. Thread-safe.
  void check() const {
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) report_cancelled();
    if (limit_.count() > 0 && Clock::now() - start_ > limit_) report_late();
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[noreturn]] static void report_cancelled();
  [[noreturn]] void report_late() const;

  const std::atomic<bool>* cancelled_;
  const std::chrono::nanoseconds limit_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace tessera::base
