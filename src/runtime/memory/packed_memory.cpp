#include "runtime/memory/packed_memory.h"

#include <algorithm>

#include "base/numbers/checked.h"
#include "runtime/memory/memory.h"

namespace tessera::runtime {
namespace {

// A small model needs no huge page.
constexpr std::int64_t kFirstSlab = std::int64_t{256} << 10, kLargestSlab = std::int64_t{32} << 20;

}  // namespace

std::shared_ptr<std::byte[]> allocate_packed(std::int64_t bytes) {
  return system_block(bytes);
}

std::shared_ptr<std::byte[]> PackedMemory::allocate(std::int64_t bytes) {
  if (bytes >= kLargestSlab / 2) return allocate_packed(bytes);
  const std::int64_t size = base::round_up(bytes, 64);
  std::lock_guard lock(mutex_);
  std::shared_ptr<std::byte[]> slab = slab_.lock();
  if (slab == nullptr || size > slab_bytes_ - used_bytes_) {
    slab_bytes_ = slab == nullptr ? kFirstSlab : std::min(slab_bytes_ * 4, kLargestSlab);
    while (slab_bytes_ < size) slab_bytes_ *= 2;
    slab = allocate_packed(slab_bytes_);
    slab_ = slab;
    used_bytes_ = 0;
  }
  std::byte* data = slab.get() + used_bytes_;
  used_bytes_ += size;
  return {std::move(slab), data};
}

}  // namespace tessera::runtime
