// Limits the processor time that this process uses, by a token bucket: time is added at the rate of the share,
// computing removes it, and at most kBurstNs are saved up.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tessera::lease {

// Thread-safe.
class CoreQuota {
 public:
  // `cores` is processor time in seconds per second.
  explicit CoreQuota(double cores);
  // Whether the process has used more than its share. Reads its processor time at most once every kLookNs.
  bool is_exceeded();
  // How long the process has to pause, from now on, until it may compute again; 0 if it may compute.
  std::int64_t pause_ns() const;

 private:
  static constexpr std::int64_t kLookNs = 200'000, kBurstNs = 5'000'000;

  const double rate_;  // core-nanoseconds per nanosecond
  std::mutex mutex_;
  std::atomic<std::int64_t> looked_ns_;
  std::atomic<double> tokens_ns_{0};
  std::int64_t used_ns_;
};

}  // namespace tessera::lease
