// The seeds of the runs of a session.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <random>

#include "base/run_seed.h"

namespace tessera::runtime {

// Counts the runs of a session that draw random numbers, and gives each its seed. Thread-safe.
class RunSeeds {
 public:
  void restart(std::optional<std::uint64_t> sequence) {
    const std::lock_guard lock(mutex_);
    sequence_ = sequence;
    next_run_ = 0;
  }
  std::uint64_t next() {
    const std::lock_guard lock(mutex_);
    const std::uint32_t run = next_run_++;
    // The system is asked at each run, so that processes that were forked from one draw different numbers.
    return sequence_ ? base::seed_of_run(*sequence_, run) : base::numbered_seed(std::random_device()(), run);
  }

 private:
  std::mutex mutex_;
  std::optional<std::uint64_t> sequence_;
  std::uint32_t next_run_ = 0;
};

}  // namespace tessera::runtime
