// Memory for packed weights: many blocks of all sizes that live about as long as each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tessera::runtime {

// A block of its own, 64-byte aligned. Throws Error(over_budget) when the system has none.
std::shared_ptr<std::byte[]> allocate_packed(std::int64_t bytes);

// Puts blocks side by side into slabs on huge pages: a page is touched for the first time by whoever fills it, and
// ordinary pages cost about four times as much a byte. A slab goes back to the system with its last block. Thread-safe.
class PackedMemory {
 public:
  // Uninitialised, 64-byte aligned; large ones are a block of their own. Blocks may outlive this. Throws as
  // allocate_packed.
  std::shared_ptr<std::byte[]> allocate(std::int64_t bytes);

 private:
  std::mutex mutex_;
  std::weak_ptr<std::byte[]> slab_;  // the one that is being filled
  std::int64_t slab_bytes_ = 0, used_bytes_ = 0;
};

}  // namespace tessera::runtime
