#include "serve/core/models/image_memory.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kRetry{5};
constexpr std::chrono::seconds kMostWait{5};

}  // namespace

void ImageMemory::count_in(Budget budget) {
  const std::lock_guard lock(mutex_);
  budget_ = std::move(budget);
}

ImageMemory::Budget ImageMemory::budget() const {
  const std::lock_guard lock(mutex_);
  return budget_;
}

ImageMemory::Lease::~Lease() {
  if (held_ > 0) budget_.give(held_);
}

void ImageMemory::Lease::take(std::int64_t bytes, const Cancellation& cancellation) {
  if (!budget_.take) return;
  if (bytes > budget_.limit_bytes - held_)
    throw Failure(Reason::too_large,
                  fmt::format("decoding it takes {} MiB, and all bodies and images together may take {} MiB",
                              (bytes >> 20) + 1, budget_.limit_bytes >> 20));
  const auto end = std::chrono::steady_clock::now() + kMostWait;
  while (!budget_.take(bytes)) {
    if (cancellation.flag().load(std::memory_order_relaxed))
      throw Failure(Reason::cancelled, "the request was cancelled");
    if (std::chrono::steady_clock::now() >= end)
      throw Failure(Reason::unavailable, "the server holds too many bodies and images", 1);
    std::this_thread::sleep_for(kRetry);
  }
  held_ += bytes;
}

}  // namespace tessera::serve
