// The allocated and free parts of a range of device addresses. Offsets and sizes are multiples of kBlockAlignment, as
// CUDA's are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace tessera::backends {

inline constexpr std::int64_t kBlockAlignment = 256;

class BlockList {
 public:
  explicit BlockList(std::int64_t bytes = 0);
  // Allocates the free block of at least `bytes` with the lowest offset; nothing if no free block is large enough.
  std::optional<std::int64_t> take(std::int64_t bytes);
  // Frees the block that begins at `offset` and returns its size. Freeing a block that is not allocated is a bug of the
  // caller.
  std::int64_t give_back(std::int64_t offset);
  // Adds `bytes`, a multiple of kBlockAlignment, behind the range.
  void extend(std::int64_t bytes);
  bool is_taken(std::int64_t offset) const { return taken_.contains(offset); }

  std::int64_t in_use() const { return in_use_; }
  std::int64_t largest_free() const;
  std::int64_t bytes() const { return bytes_; }

 private:
  void add_free(std::int64_t offset, std::int64_t size);

  std::map<std::int64_t, std::int64_t> free_, taken_;  // bytes by offset; neighbouring free blocks are merged
  std::int64_t in_use_ = 0, bytes_ = 0;
};

}  // namespace tessera::backends
