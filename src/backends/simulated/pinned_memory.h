// The pinned host memory of a simulated device: ordinary memory of which the device knows that it may copy from and to
// it by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace tessera::backends::simulated {

// Thread-safe.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Aligned to a page. Throws Error(over_budget).
  void* allocate(std::int64_t bytes);
  // Freeing an address that allocate() did not return is a bug of the caller.
  void free(void* address) noexcept;
  // Whether all of the range lies in one block.
  bool contains(const void* address, std::int64_t bytes) const;
  std::int64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::int64_t> blocks_;  // bytes by address
  std::int64_t bytes_ = 0;
};

}  // namespace tessera::backends::simulated
