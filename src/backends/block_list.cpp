#include "backends/block_list.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace tessera::backends {

BlockList::BlockList(std::int64_t bytes) {
  extend(bytes / kBlockAlignment * kBlockAlignment);
}

void BlockList::extend(std::int64_t bytes) {
  TESSERA_ASSERT(bytes % kBlockAlignment == 0, "a range of addresses is extended by a part of a block");
  if (bytes <= 0) return;
  add_free(bytes_, bytes);
  bytes_ += bytes;
}

std::optional<std::int64_t> BlockList::take(std::int64_t bytes) {
  if (bytes > INT64_MAX - kBlockAlignment) return std::nullopt;
  const std::int64_t size =
      (std::max<std::int64_t>(bytes, 1) + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  const auto found = std::ranges::find_if(free_, [&](const auto& part) { return part.second >= size; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, available] = *found;
  free_.erase(found);
  if (available > size) free_.emplace(offset + size, available - size);
  taken_.emplace(offset, size);
  in_use_ += size;
  return offset;
}

std::int64_t BlockList::give_back(std::int64_t offset) {
  const auto taken = taken_.find(offset);
  TESSERA_ASSERT(taken != taken_.end(), "memory of a device is freed that nobody allocated");
  const std::int64_t size = taken->second;
  taken_.erase(taken);
  in_use_ -= size;
  add_free(offset, size);
  return size;
}

void BlockList::add_free(std::int64_t offset, std::int64_t size) {
  auto part = free_.emplace(offset, size).first;
  if (const auto next = std::next(part); next != free_.end() && part->first + part->second == next->first) {
    part->second += next->second;
    free_.erase(next);
  }
  if (part != free_.begin()) {
    const auto before = std::prev(part);
    if (before->first + before->second == part->first) {
      before->second += part->second;
      free_.erase(part);
    }
  }
}

std::int64_t BlockList::largest_free() const {
  std::int64_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace tessera::backends
