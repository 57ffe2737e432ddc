// The cache of GroupQueryAttention: the places of new positions, which positions are visible, and which are kept. The
// number of positions in each row of the batch is data; the lengths of the buffers are known.
#pragma once

#include "ops/attention/attention_parts.h"

namespace tessera::ops {

struct GroupedCacheSizes {
  std::int64_t batch = 0, kv_heads = 0, head_size = 0;
  std::int64_t past = 0;   // length of the past's buffer
  std::int64_t fresh = 0;  // number of new keys: that of the queries, or 0
  std::int64_t queries = 0;
  std::int64_t window = -1;  // number of positions that a query sees, its own the last; -1: all
  bool causal = true;
  // The buffer holds only the last positions. When it is full, a whole block of the oldest positions, past - window + 1
  // of them, is dropped at once, so that this happens only once in as many steps.
  bool slides = false;
};

class GroupedCache {
 public:
  // `lengths`: the number of positions of each row, less one; `total`: the most positions of any row. If `total` equals
  // the number of queries, the queries begin at position 0.
  GroupedCache(GraphBuilder& builder, const GroupedCacheSizes& sizes, ir::ValueId lengths, ir::ValueId total);

  ir::ValueId total() const { return total_; }          // [1]
  ir::ValueId is_prompt() const { return is_prompt_; }  // [1]
  // The positions of the queries in the sequence, [batch, queries].
  ir::ValueId query_positions();
  // The length of the cache that is attended to: past and new positions.
  std::int64_t length() const { return length_; }
  // [batch, kv heads, length, size]: the held part of the past, then the new positions, then zeros.
  ir::ValueId filled(ir::ValueId past, ir::ValueId fresh);
  // The part of a filled cache that is kept for the next step.
  ir::ValueId present(ir::ValueId filled);
  // True where a query may attend to a position of the cache, [batch, 1, queries or 1, length].
  ir::ValueId visible();
  // A bias over positions of the sequence, [batch or 1, heads or 1, queries, total], rearranged to positions of the
  // cache.
  ir::ValueId bias(ir::ValueId given);

 private:
  ir::ValueId column(ir::ValueId value);
  ir::ValueId end_of(ir::ValueId positions);
  ir::ValueId slid(ir::ValueId filled);
  ir::ValueId slid_bias(ir::ValueId given);

  GraphBuilder& builder_;
  const GroupedCacheSizes sizes_;
  const std::int64_t length_;
  ir::ValueId total_, is_prompt_;
  ir::ValueId before_;   // positions of the sequence before the queries, [batch]
  ir::ValueId held_;     // positions of the cache before the new ones
  ir::ValueId lengths_;  // positions of the cache with the new ones
};

}  // namespace tessera::ops
