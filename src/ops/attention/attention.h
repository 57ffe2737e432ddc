// Scaled dot-product attention (arXiv:1706.03762) as ONNX defines it since opset 24.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef attention, attention_with_statistics, attention_with_dropout;

// The output of AttentionWithStatistics in place of Attention's scores: for each query the largest of its scores
// (-infinity where no key counts) and the sum of e^(score - largest).
inline constexpr std::size_t kAttentionStatistics = 3;
inline bool gives_statistics(const OpDef& op) {
  return &op == &attention_with_statistics || &op == &attention_with_dropout;
}

// The output of AttentionWithDropout with the seed and the stream of the Philox numbers (base/numbers/philox.h) that
// decide which weights are kept. The weight of batch b, head h, query i and key j has the number of element [b, h, i,
// j] of a tensor [batch, heads, queries, total keys], as in Dropout.
inline constexpr std::size_t kAttentionRandom = 4;
inline bool drops_weights(const OpDef& op) {
  return &op == &attention_with_dropout;
}

// Inputs of the Attention operators after those of ONNX, for passes that fuse attention written as arithmetic. Both
// broadcast to [batch, heads, queries, keys] and have one element per key. `replacement`: NaN where a score is kept;
// any other number is the operand of softmax there, whatever the product, the softcap and the masks are, as in
// Where(condition, number, scores). `second_mask` is added after attn_mask: (score + attn_mask) + second_mask differs
// from score + (attn_mask + second_mask) where numbers are large.
inline constexpr std::size_t kAttentionReplacement = 7, kAttentionSecondMask = 8;

// Attribute `nan_rows`: the result for a query whose scores are all -infinity, or one of which is NaN.
enum class NanRows : std::uint8_t {
  // Zeros if all scores are -infinity, else NaN. Values of weight 0 are not read, so that the contents of padding do no
  // harm. ONNX leaves both open.
  zeros_for_no_key,
  // NaN, as from the nodes MatMul, Softmax and MatMul. A weight of 0 times a value that is not finite is NaN, too,
  // unless is_causal excludes later keys.
  propagate,
  // Zeros in both cases, whatever the values, as from Where(IsNaN(weights), 0, weights) between Softmax and MatMul.
  zeros,
};
NanRows nan_rows_of(const AttributeReader& reader);

// The sizes of an Attention node. Q, K and V are [batch, heads, length, head size], or packed [batch, length, heads *
// head size]; past and present are always [batch, kv_heads, length, head size].
struct AttentionSizes {
  bool packed = false;
  std::int64_t batch = 0, query_heads = 0, kv_heads = 0;
  std::int64_t query_length = 0, past_length = 0, new_length = 0;
  std::int64_t head_size = 0, value_head_size = 0;
  float scale = 1;  // applied to Q K^T

  std::int64_t total_length() const { return past_length + new_length; }
  // The head of keys and values that a query head reads.
  std::int64_t kv_head(std::int64_t query_head) const { return query_head / (query_heads / kv_heads); }
};
// The sizes for concrete shapes that inference has accepted; `past_key` is null without a past.
AttentionSizes attention_sizes(const AttributeReader& reader, const Shape& query, const Shape& key, const Shape& value,
                               const Shape* past_key);

}  // namespace tessera::ops
