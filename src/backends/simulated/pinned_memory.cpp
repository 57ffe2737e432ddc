#include "backends/simulated/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/assert.h"
#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::backends::simulated {
namespace {

constexpr std::int64_t kPageBytes = 4096;

}  // namespace

PinnedMemory::~PinnedMemory() {
  for (const auto& [address, bytes] : blocks_) std::free(const_cast<std::byte*>(address));
}

void* PinnedMemory::allocate(std::int64_t bytes) {
  void* address = nullptr;
  if (bytes <= INT64_MAX - kPageBytes) {
    const std::int64_t size = (std::max<std::int64_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
    address = std::aligned_alloc(static_cast<std::size_t>(kPageBytes), static_cast<std::size_t>(size));
  }
  require(address != nullptr, ErrorKind::over_budget, "the system has no {} of pinned host memory",
          base::format_bytes(bytes));
  const std::lock_guard lock(mutex_);
  blocks_.emplace(static_cast<const std::byte*>(address), std::max<std::int64_t>(bytes, 1));
  bytes_ += bytes;
  return address;
}

void PinnedMemory::free(void* address) noexcept {
  if (address == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(address));
  TESSERA_ASSERT(found != blocks_.end(), "pinned memory of a simulated device is freed that nobody allocated");
  bytes_ -= found->second;
  blocks_.erase(found);
  std::free(address);
}

bool PinnedMemory::contains(const void* address, std::int64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(first);
  if (after == blocks_.begin()) return false;
  const auto& [block, size] = *std::prev(after);
  return first - block <= size - bytes;
}

std::int64_t PinnedMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace tessera::backends::simulated
