// Attention over keys and values that are kept from step to step in pages, and the operator that writes new ones.
//
// Rows of a step belong to any sequences: row t is position `positions`[t] of sequence `sequence`[t], and -1 for the
// sequence marks a row that only fills up the step. A cache is [pages, heads, positions of a page, size], of f32 or
// f16, or of i8 with a scale for each position and head. `pages` is [sequences, pages of a sequence]: entry [s, i] is
// the page of the positions from i · (positions of a page) on of sequence s, or -1 where there is none.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// tessera::CacheAttention: q [T, heads · size], k [T, kv_heads · size], v [T, kv_heads · value size] and the caches of
// keys and values → [T, heads · value size], all but the caches f32. A row sees the positions up to its own of its
// sequence, of a `window` only the last so many (0: all): those of rows of this step from the operands, rounded as the
// cache stores them, all others from the cache. Scores are scale · q·k, then softcap · tanh(score / softcap) unless
// softcap is 0; `sinks` [heads] adds a score to each softmax that has no value. Rows of no sequence give zeros.
// Query head h reads key head h / (heads / kv_heads).
extern const OpDef cache_attention;

// tessera::AppendRows: writes rows [T, heads · size] to their places in a cache, rounded to its type, and returns it;
// for a cache of i8 also the scales [pages, heads, positions of a page]: the largest magnitude of the row's head / 127.
extern const OpDef append_rows;

// Outputs of append_rows may be written over their own operands.
bool appends_in_place(const ir::Node& node, std::size_t output, std::size_t input);

enum CacheAttentionInput : std::size_t {
  kCacheQuery,
  kCacheKey,
  kCacheValue,
  kKeyCache,
  kValueCache,
  kCachePages,
  kCachePositions,
  kCacheSequence,
  kCacheSinks,
  kKeyScales,
  kValueScales,
};
enum AppendRowsInput : std::size_t {
  kAppendCache,
  kAppendRows,
  kAppendPages,
  kAppendPositions,
  kAppendSequence,
  kAppendScales,
};

// The page and the row in it where a position of a sequence lies.
struct CachePlace {
  std::int64_t page, row;
};

// Finds places in a table of pages. Throws Error(failed) for a sequence, a position or a page that is out of range, and
// for a position whose page is -1.
class PageTable {
 public:
  // `pages` is the operand [sequences, pages of a sequence] of i64; `cache` the shape of the cache.
  PageTable(const Tensor& pages, const Shape& cache);
  CachePlace place(std::int64_t sequence, std::int64_t position) const;
  std::int64_t page_rows() const { return page_rows_; }
  std::int64_t sequences() const { return sequences_; }

 private:
  const std::int64_t* table_;
  std::int64_t sequences_, columns_, pages_, page_rows_;
};

}  // namespace tessera::ops
