// The cache of GroupQueryAttention: where new positions go, which are seen, and what is kept. How many positions a row
// of the batch has is data; the lengths of the buffers are known.
#pragma once

#include "ops/attention/attention_parts.h"

namespace tessera::ops {

struct GroupedCacheSizes {
  std::int64_t batch = 0, kv_heads = 0, head_size = 0;
  std::int64_t past = 0;   // length of the past's buffer
  std::int64_t fresh = 0;  // new keys: as many as there are queries, or none
  std::int64_t queries = 0;
  std::int64_t window = -1;  // a query sees that many positions, its own the last; -1: all
  bool causal = true;
  // The buffer holds the last positions only. It is filled up; then room is made for at least one position more by
  // dropping a whole block of the oldest, past - window + 1 of them, so that this happens once in as many steps.
  bool slides = false;
};

class GroupedCache {
 public:
  // `lengths`: positions of each row in all, less one; `total`: the most of any row. If that is the number of queries
  // these begin at position 0.
  GroupedCache(GraphBuilder& builder, const GroupedCacheSizes& sizes, ir::ValueId lengths, ir::ValueId total);

  ir::ValueId total() const { return total_; }          // [1]
  ir::ValueId is_prompt() const { return is_prompt_; }  // [1]
  // Of the queries in the sequence, [batch, queries].
  ir::ValueId query_positions();
  // Of the cache that is attended to: past and new.
  std::int64_t length() const { return length_; }
  // [batch, kv heads, length, size]: what of the past is held, the new positions, zeros.
  ir::ValueId filled(ir::ValueId past, ir::ValueId fresh);
  // What is kept of a filled cache for the next step.
  ir::ValueId present(ir::ValueId filled);
  // True where a query may look at a position of the cache, [batch, 1, queries or 1, length].
  ir::ValueId visible();
  // A bias over the positions of the sequence [batch or 1, heads or 1, queries, total], over those of the cache.
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
