// Attention of several queries over a block of keys and values, compiled for each instruction set. Every sum has its
// terms in one order, whatever queries are computed together, so that a query has the same results beside any others.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// Positions whose keys are visited together.
inline constexpr std::int64_t kKeyBlock = 64;
// Rows of blocks are padded to a multiple of this many floats.
inline constexpr std::int64_t kBlockAlignment = 16;

struct CacheBlocks {
  // to[i · kKeyBlock + key] = from[key · stride + i] for all keys of a block and all i below `stride`, a multiple of
  // kBlockAlignment.
  void (*transpose)(const float* from, std::int64_t stride, float* to);
  // scores[query · kKeyBlock + key] = Σ queries[query · stride + i] · keys[i · kKeyBlock + key], in ascending order of
  // i below `size`, for all keys of a block.
  void (*scores)(const float* queries, std::int64_t stride, const float* keys, std::int64_t size, std::int64_t count,
                 float* scores);
  // y[query · width + i] += Σ weights[query · kKeyBlock + key] · values[key · width + i], in ascending order of the
  // keys in [begin, end), where `width` is a multiple of kBlockAlignment.
  void (*add_weighted)(const float* weights, const float* values, std::int64_t width, std::int64_t begin,
                       std::int64_t end, std::int64_t count, float* y);
};

// Returns the functions of the active instruction set.
const CacheBlocks& cache_blocks();

}  // namespace tessera::backends::cpu
