// A limit on bytes per second: a token bucket that fills at that rate and holds the bytes of a sixteenth of a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace tessera::io {

// Thread-safe.
class ReadThrottle {
 public:
  // 0: no limit.
  void set_rate(double bytes_per_second);
  double rate() const;
  // Takes the bytes; the calling thread sleeps until the bucket has them.
  void take(std::int64_t bytes);

 private:
  using Time = std::chrono::steady_clock::time_point;
  mutable std::mutex mutex_;
  double rate_ = 0;
  double tokens_ = 0;  // bytes that may be taken at `since_`; negative: taken in advance
  Time since_;
};

}  // namespace tessera::io
