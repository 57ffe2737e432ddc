// Attention over a cache that is longer than what it holds: past and present share one buffer of the longest length.
#pragma once

#include "ops/attention/attention_parts.h"

namespace tessera::ops {

struct SharedCache {
  ir::ValueId key, value;  // [batch, heads, longest length, size]
  ir::ValueId length;      // one integer: how many positions it holds already
  // For beam search [batch / beams, beams, longest length]: the beam of the same group whose cache holds each earlier
  // position of a row. Invalid: every row has its own.
  ir::ValueId beam_of_position = {};
};

// `call` has heads first; its keys and values are put into the cache behind what it holds, and are attended to together
// with that. Its mask, if any, covers what is held and what is new. The present of the result is the whole cache, the
// scores cover what is held and what is new.
AttentionResult add_shared_cache_attention(GraphBuilder& builder, AttentionCall call, const SharedCache& cache);

}  // namespace tessera::ops
