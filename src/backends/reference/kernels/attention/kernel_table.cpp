#include "backends/reference/kernels/attention/kernel_table.h"

#include "backends/reference/kernels/attention/kernels.h"
#include "ops/attention/paged_cache.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> attention_kernels() {
  static const KernelEntry table[] = {
      // attention
      {.op = "Attention", .name = "reference_attention", .function = attention},
      {.op = "tessera::AttentionWithStatistics", .name = "reference_attention_with_statistics", .function = attention},
      {.op = "tessera::AttentionWithDropout", .name = "reference_attention_with_dropout", .function = attention},
      // attention_gradient
      {.op = "tessera::AttentionGradient", .name = "reference_attention_gradient", .function = attention_gradient},
      // linear_attention
      {.op = "LinearAttention", .name = "reference_linear_attention", .function = linear_attention},
      // linear_attention_gradient
      {.op = "tessera::LinearAttentionGradient",
       .name = "reference_linear_attention_gradient",
       .function = linear_attention_gradient},
      // paged_cache
      {.op = "tessera::CacheAttention", .name = "reference_cache_attention", .function = cache_attention},
      {.op = "tessera::AppendRows",
       .name = "reference_append_rows",
       .function = append_rows,
       .in_place_pair = ops::appends_in_place},
      // rotary_embedding
      {.op = "RotaryEmbedding", .name = "reference_rotary_embedding", .function = rotary_embedding},
  };
  return table;
}

}  // namespace tessera::backends::reference
