#include "lease/core_quota.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "tessera/clock.h"

namespace tessera::lease {
namespace {

std::int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

CoreQuota::CoreQuota(double cores) : rate_(cores), looked_ns_(Clock::steady().now_ns()), used_ns_(processor_ns()) {}

bool CoreQuota::is_exceeded() {
  const std::int64_t now_ns = Clock::steady().now_ns();
  if (now_ns - looked_ns_.load(std::memory_order_relaxed) >= kLookNs) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) {
      const std::int64_t used_ns = processor_ns();
      const double came = rate_ * static_cast<double>(now_ns - looked_ns_.load());
      const double tokens = tokens_ns_.load() + came - static_cast<double>(used_ns - used_ns_);
      tokens_ns_ = std::min(tokens, rate_ * static_cast<double>(kBurstNs));
      used_ns_ = used_ns;
      looked_ns_ = now_ns;
    }
  }
  return tokens_ns_.load(std::memory_order_relaxed) < 0;
}

std::int64_t CoreQuota::pause_ns() const {
  return static_cast<std::int64_t>(std::ceil(std::max(0.0, -tokens_ns_.load()) / rate_));
}

}  // namespace tessera::lease
