// The arguments of the kernels of top_k.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kTopKThreads = 256;
// Up to this k, the selected elements are sorted in shared memory.
inline constexpr int kTopKShared = 1024;
inline constexpr std::int64_t kTopKLength = std::int64_t{1} << 30;  // the longest line

// values[outer, k, inner] = the k largest or smallest of x[outer, length, inner], the best first; indices = their
// positions in `length`. The first of equal elements comes first; not-a-number is larger than every number.
struct TopKParameters {
  const void* x;
  void* values;           // of x's type; null: not wanted
  std::int64_t* indices;  // null: not wanted
  std::uint64_t* ranks;   // k for each block of the grid; null where k is at most kTopKShared
  std::int64_t lines;     // outer × inner
  std::int64_t inner;
  unsigned length, k;  // 1 ≤ k ≤ length ≤ kTopKLength
  bool largest;
};

}  // namespace tessera::cuda
