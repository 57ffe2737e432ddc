// A bound on the cores' time that this process uses, as a token bucket: time comes in at the share's rate, what the
// process computes goes out, and at most kBurstNs are saved up.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tessera::lease {

// Thread-safe.
class CoreQuota {
 public:
  // `cores`: processor time a second.
  explicit CoreQuota(double cores);
  // Whether the process has had more than its share. Looks at its processor time at most once every kLookNs.
  bool is_exceeded();
  // How long it would have to pause from now on until it may compute again; 0 if it may.
  std::int64_t pause_ns() const;

 private:
  static constexpr std::int64_t kLookNs = 200'000, kBurstNs = 5'000'000;

  const double rate_;  // core-nanoseconds a nanosecond
  std::mutex mutex_;
  std::atomic<std::int64_t> looked_ns_;
  std::atomic<double> tokens_ns_{0};
  std::int64_t used_ns_;
};

}  // namespace tessera::lease
