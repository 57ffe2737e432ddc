#include "io/package/read_throttle.h"

#include <algorithm>
#include <thread>

namespace tessera::io {
namespace {

constexpr double kBucketSeconds = 1.0 / 16;

}  // namespace

void ReadThrottle::set_rate(double bytes_per_second) {
  const std::lock_guard lock(mutex_);
  rate_ = bytes_per_second;
  tokens_ = 0;
  since_ = std::chrono::steady_clock::now();
}

double ReadThrottle::rate() const {
  const std::lock_guard lock(mutex_);
  return rate_;
}

void ReadThrottle::take(std::int64_t bytes) {
  double wait = 0;
  {
    const std::lock_guard lock(mutex_);
    if (rate_ <= 0) return;
    const Time now = std::chrono::steady_clock::now();
    tokens_ += std::chrono::duration<double>(now - since_).count() * rate_;
    tokens_ = std::min(tokens_, rate_ * kBucketSeconds) - static_cast<double>(bytes);
    since_ = now;
    wait = -tokens_ / rate_;
  }
  if (wait > 0) std::this_thread::sleep_for(std::chrono::duration<double>(wait));
}

}  // namespace tessera::io
