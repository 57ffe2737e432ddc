// Gives memory that nobody used for a while back to the system: a thread that sleeps while no pool holds idle blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tessera::runtime {

class IdleTrimmer {
 public:
  // Lives as long as the process; its thread starts with the first call of wake().
  static IdleTrimmer& process();
  // A pool has idle blocks: periods run until none is left.
  void wake();
  // Memory goes back after one to two periods without use. 10 s unless set.
  void set_period(std::chrono::milliseconds period);

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds period_{10'000};
  std::atomic<bool> awake_{false};
  bool started_ = false;
};

}  // namespace tessera::runtime
