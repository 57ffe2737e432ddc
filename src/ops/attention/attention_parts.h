// Parts of the decompositions of com.microsoft's attention operators: layouts of heads, masks and caches around one
// standard Attention. All of them need concrete shapes.
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
// A mask of com.microsoft as a bias to add to the scores: [batch, 1, 1 or query length, total length], `filter` where a
// key is left out, else 0. The mask may be
//   [batch]: the number of keys that count; [2 * batch]: their ends, then their beginnings; [3 * batch + 2]: the first
//   `batch` elements as above; [batch, total length] or [batch, query length, total length]: keys with a positive mask
//   count; [batch, 1, length, length] with the rows of the past before those of the queries.
// Returns an invalid value for a mask [batch or 1, 1], which has no effect. Throws Error(invalid_model) for any other
// shape.
ir::ValueId additive_mask(GraphBuilder& builder, ir::ValueId mask, const ScoreSizes& sizes, float filter, DType type);
// The sum of both, or the one that is valid, or an invalid value if neither is.
ir::ValueId add_optional(GraphBuilder& builder, ir::ValueId a, ir::ValueId b);

// --- attention ---
// The operands of a standard Attention; the axis of the heads is the same in K and V as in Q.
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
