// Which parts of a range of addresses are taken. Offsets and sizes are multiples of kBlockAlignment, as CUDA's are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace tessera::backends::simulated {

inline constexpr std::int64_t kBlockAlignment = 256;

class BlockList {
 public:
  explicit BlockList(std::int64_t bytes);
  // The lowest free place of at least `bytes`, or nothing where no free part is as large.
  std::optional<std::int64_t> take(std::int64_t bytes);
  // Returns how many bytes the block that begins at `offset` took. Giving back what was not taken is a bug of the
  // caller's.
  std::int64_t give_back(std::int64_t offset);
  bool is_taken(std::int64_t offset) const { return taken_.contains(offset); }

  std::int64_t in_use() const { return in_use_; }
  std::int64_t largest_free() const;

 private:
  std::map<std::int64_t, std::int64_t> free_, taken_;  // bytes by offset; free neighbours are one
  std::int64_t in_use_ = 0;
};

}  // namespace tessera::backends::simulated
