// Attention over a cache with free space: past and present share one buffer of the longest length.
#pragma once

#include "ops/attention/attention_parts.h"

namespace tessera::ops {

struct SharedCache {
  ir::ValueId key, value;  // [batch, heads, longest length, size]
  ir::ValueId length;      // one integer: number of positions held already
  // For beam search, [batch / beams, beams, longest length]: the beam of the same group whose cache holds each earlier
  // position of a row. Invalid: each row uses its own cache.
  ir::ValueId beam_of_position = {};
};

// Adds the attention of `call`, with heads first: its keys and values are written into the cache behind the held
// positions and attended to together with them. Its mask, if any, covers held and new positions. The present of the
// result is the whole cache; the scores cover held and new positions.
AttentionResult add_shared_cache_attention(GraphBuilder& builder, AttentionCall call, const SharedCache& cache);

}  // namespace tessera::ops
