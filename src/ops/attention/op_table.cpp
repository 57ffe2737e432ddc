#include "ops/attention/op_table.h"

#include "ops/attention/attention.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/flex_attention.h"
#include "ops/attention/group_query_attention.h"
#include "ops/attention/linear_attention.h"
#include "ops/attention/microsoft_attention.h"
#include "ops/attention/multi_head_attention.h"
#include "ops/attention/paged_cache.h"
#include "ops/attention/rotary_embedding.h"

namespace tessera::ops {

std::span<const OpDef* const> attention_ops() {
  static constexpr const OpDef* table[] = {
      // attention
      &attention,
      &attention_with_statistics,
      &attention_with_dropout,
      // attention_gradient
      &attention_gradient,
      // flex_attention
      &flex_attention,
      // group_query_attention
      &group_query_attention,
      // microsoft_attention
      &microsoft_attention,
      &q_attention,
      // multi_head_attention
      &multi_head_attention,
      &decoder_masked_multi_head_attention,
      // linear_attention
      &linear_attention,
      &linear_attention_gradient,
      // paged_cache
      &cache_attention,
      &append_rows,
      // rotary_embedding
      &rotary_embedding,
  };
  return table;
}

}  // namespace tessera::ops
