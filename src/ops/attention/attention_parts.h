// Pieces that the attention operators of com.microsoft are put together from: layouts of heads, masks and caches around
// one standard Attention. All of them need concrete shapes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/core/builder.h"

namespace tessera::ops {

// The shapes of the inputs (empty for an absent one), or nothing while one of them is not concrete.
std::optional<std::vector<Shape>> concrete_shapes(const GraphBuilder& builder, std::span<const ir::ValueId> inputs);

// --- layouts ---
ir::ValueId reshaped(GraphBuilder& builder, ir::ValueId value, const Shape& shape);
ir::ValueId transposed(GraphBuilder& builder, ir::ValueId value, std::vector<std::int64_t> permutation);
// Elements [begin, end) along the axis.
ir::ValueId sliced(GraphBuilder& builder, ir::ValueId value, std::int64_t axis, std::int64_t begin, std::int64_t end);
std::vector<ir::ValueId> split(GraphBuilder& builder, ir::ValueId value, std::int64_t axis,
                               const std::vector<std::int64_t>& sizes);
// 0, 1, ... count - 1 as i64.
ir::ValueId positions(GraphBuilder& builder, std::int64_t count);
// [batch, length, heads * size] -> [batch, heads, length, size], and back.
ir::ValueId heads_first(GraphBuilder& builder, ir::ValueId packed, std::int64_t heads);
ir::ValueId heads_last(GraphBuilder& builder, ir::ValueId heads);

// --- masks ---
struct ScoreSizes {
  std::int64_t batch = 0, query_length = 0, past_length = 0, total_length = 0;
};
// What com.microsoft calls a mask, as values to add to the scores: [batch, 1, 1 or query length, total length],
// `filter` where a key is left out, else 0. The mask may be
//   [batch]: how many keys count; [2 * batch]: their ends, then their beginnings; [3 * batch + 2]: as the first `batch`
//   say; [batch, total length] and [batch, query length, total length]: a key counts where the mask is positive;
//   [batch, 1, length, length] with the rows of the past before those of the queries.
// Invalid for a mask [batch or 1, 1], which says nothing. Error(invalid_model) for any other shape.
ir::ValueId additive_mask(GraphBuilder& builder, ir::ValueId mask, const ScoreSizes& sizes, float filter, DType type);
// Both added, or the one that is valid, or an invalid one.
ir::ValueId add_optional(GraphBuilder& builder, ir::ValueId a, ir::ValueId b);

// --- attention ---
// Operands of a standard Attention; heads of K and V are first or last as those of Q are.
struct AttentionCall {
  ir::ValueId query, key, value;
  ir::ValueId mask = {}, past_key = {}, past_value = {};
  std::int64_t query_heads = 0, kv_heads = 0;
  float scale = 0;  // 0: 1 / sqrt(head size)
  float softcap = 0;
  bool causal = false;
  bool wants_present = false, wants_scores = false;
  std::int64_t scores_mode = 2;  // qk_matmul_output_mode
};
struct AttentionResult {
  ir::ValueId output, present_key = {}, present_value = {}, scores = {};
};
AttentionResult add_attention(GraphBuilder& builder, const AttentionCall& call);

}  // namespace tessera::ops
