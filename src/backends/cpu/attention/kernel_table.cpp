#include "backends/cpu/attention/kernel_table.h"

#include "backends/cpu/attention/kernels.h"
#include "ops/attention/paged_cache.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> attention_kernels() {
  static const KernelEntry table[] = {
      // attention
      {.op = "Attention", .name = "cpu_attention", .reject = reject_attention_f32, .create = make_attention_f32},
      {.op = "Attention", .name = "cpu_attention_bf16", .reject = reject_attention_bf16, .create = make_attention_bf16},
      {.op = "tessera::AttentionWithStatistics",
       .name = "cpu_attention_with_statistics",
       .reject = reject_attention_f32,
       .create = make_attention_f32},
      {.op = "tessera::AttentionWithDropout",
       .name = "cpu_attention_with_dropout",
       .reject = reject_attention_f32,
       .create = make_attention_f32},
      // attention_gradient
      {.op = "tessera::AttentionGradient",
       .name = "cpu_attention_gradient",
       .reject = reject_attention_gradient,
       .create = make_attention_gradient},
      // append_rows
      {.op = "tessera::AppendRows",
       .name = "cpu_append_rows",
       .function = append_rows,
       .in_place_pair = ops::appends_in_place},
      // paged_cache
      {.op = "tessera::CacheAttention", .name = "cpu_cache_attention", .create = make_cache_attention},
      // group_query_attention
      {.op = "com.microsoft::GroupQueryAttention",
       .name = "cpu_group_query_attention",
       .reject = reject_group_query_attention,
       .create = make_group_query_attention},
      // rotary_embedding
      {.op = "RotaryEmbedding",
       .name = "cpu_rotary_embedding_f32",
       .reject = reject_rotary_embedding_f32,
       .function = rotary_embedding_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
