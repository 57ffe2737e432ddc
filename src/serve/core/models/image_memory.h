// The memory that images take while they are decoded, of all models of a server together.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "tessera/session.h"

namespace tessera::serve {

// Thread-safe.
class ImageMemory {
 public:
  class Lease;

  // Where the bytes are counted. Until it is told, nothing counts.
  struct Budget {
    std::int64_t limit_bytes = 0;
    std::function<bool(std::int64_t)> take;  // returns whether so many were left
    std::function<void(std::int64_t)> give;
  };
  void count_in(Budget budget);

 private:
  Budget budget() const;

  mutable std::mutex mutex_;
  Budget budget_;
};

// The memory charged for one image, until this is destroyed. For one thread.
class ImageMemory::Lease {
 public:
  explicit Lease(const ImageMemory& memory) : budget_(memory.budget()) {}
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Waits some seconds until the budget holds so many bytes more. Throws Failure: too_large where it never does,
  // unavailable where too much is held meanwhile, cancelled.
  void take(std::int64_t bytes, const Cancellation& cancellation);

 private:
  const Budget budget_;
  std::int64_t held_ = 0;
};

}  // namespace tessera::serve
