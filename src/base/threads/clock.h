// A virtual clock for simulations, in which threads run one at a time and waiting takes no time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/clock.h"

namespace tessera::base {

// Time advances only when all threads of run() wait: it then becomes the earliest time that one of them waits for. The
// threads run one at a time. If several wait for the same time, the next one is drawn from the seed, so that equal
// seeds give equal orders of events.
//
// If a thread that does not belong to run() waits for a time, time advances to it immediately.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(std::uint64_t seed = 0, std::int64_t start_ns = 0);
  ~VirtualClock() override;
  VirtualClock(const VirtualClock&) = delete;
  VirtualClock& operator=(const VirtualClock&) = delete;

  std::int64_t now_ns() const override { return now_ns_.load(std::memory_order_acquire); }
  void sleep_until(std::int64_t time_ns) override;
  std::unique_ptr<Signal> make_signal() override;

  // Runs each body on a thread of its own, all starting at the present time, and returns when all have ended. Rethrows
  // the exception of the first body, in the order of `bodies`, that threw one. One call at a time.
  void run(const std::vector<std::function<void()>>& bodies);

 private:
  class VirtualSignal;
  struct State;
  std::atomic<std::int64_t> now_ns_;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::base
