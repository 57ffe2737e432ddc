#include "ops/attention/attention_parts.h"

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/text_of.h"

namespace tessera::ops {

using ir::ValueId;

std::optional<std::vector<Shape>> concrete_shapes(const GraphBuilder& builder, std::span<const ValueId> inputs) {
  std::vector<Shape> shapes;
  for (const ValueId input : inputs) {
    if (!input.valid()) {
      shapes.emplace_back();
      continue;
    }
    std::optional<Shape> shape = builder.type(input).shape();
    if (!shape) return std::nullopt;
    shapes.push_back(*std::move(shape));
  }
  return shapes;
}

ValueId reshaped(GraphBuilder& builder, ValueId value, const Shape& shape) {
  return builder.add("Reshape", {value, builder.integers(std::vector<std::int64_t>(shape.begin(), shape.end()))},
                     {{"allowzero", std::int64_t{1}}});
}

ValueId transposed(GraphBuilder& builder, ValueId value, std::vector<std::int64_t> permutation) {
  return builder.add("Transpose", {value}, {{"perm", std::move(permutation)}});
}

ValueId sliced(GraphBuilder& builder, ValueId value, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  return builder.add("Slice", {value, builder.integers({begin}), builder.integers({end}), builder.integers({axis})});
}

std::vector<ValueId> split(GraphBuilder& builder, ValueId value, std::int64_t axis,
                           const std::vector<std::int64_t>& sizes) {
  return builder.add_multi("Split", {value, builder.integers(sizes)}, sizes.size(), {{"axis", axis}});
}

// Computed by nodes and not stored, so that its size counts against the budget of the computation.
ValueId positions(GraphBuilder& builder, std::int64_t count) {
  const auto number = [&](std::int64_t value) { return builder.constant(Tensor::scalar(value)); };
  const ValueId begin = number(0), end = number(count), step = number(1);
  return builder.add("Range", {begin, end, step});
}

ValueId heads_first(GraphBuilder& builder, ValueId packed, std::int64_t heads) {
  const Shape shape = *builder.type(packed).shape();
  return transposed(builder, reshaped(builder, packed, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

ValueId heads_last(GraphBuilder& builder, ValueId heads) {
  const Shape shape = *builder.type(heads).shape();
  return reshaped(builder, transposed(builder, heads, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

namespace {

// True where a key counts, given the ends, and possibly beginnings, of counting keys.
ValueId within_ends(GraphBuilder& builder, ValueId list, bool has_begins, const ScoreSizes& sizes) {
  const Shape column{sizes.batch, 1, 1, 1};
  const ValueId keys = positions(builder, sizes.total_length), wide = builder.cast(list, DType::i64);
  const ValueId ends = reshaped(builder, sliced(builder, wide, 0, 0, sizes.batch), column);
  const ValueId before_end = builder.add("Less", {keys, ends});
  if (!has_begins) return before_end;
  const ValueId begins = reshaped(builder, sliced(builder, wide, 0, sizes.batch, 2 * sizes.batch), column);
  return builder.add("And", {before_end, builder.add("GreaterOrEqual", {keys, begins})});
}

ValueId is_positive(GraphBuilder& builder, ValueId mask, const Shape& shape) {
  return builder.add("Greater", {reshaped(builder, mask, shape), builder.scalar(0, builder.dtype(mask))});
}

// True where a key counts; an invalid value for a mask without effect.
ValueId counting_keys(GraphBuilder& builder, ValueId mask, const ScoreSizes& sizes) {
  const Shape shape = *builder.type(mask).shape();
  const auto [batch, queries, past, total] = sizes;
  if (shape.size() == 1) {
    const bool ends = shape[0] == batch, both = shape[0] % 2 == 0 && shape[0] / 2 == batch;
    const bool cumulated = shape[0] > 2 && (shape[0] - 2) % 3 == 0 && (shape[0] - 2) / 3 == batch;
    if (ends || both || cumulated) return within_ends(builder, mask, both && !ends, sizes);
  }
  if (shape == Shape{batch, total}) return is_positive(builder, mask, {batch, 1, 1, total});
  if (shape == Shape{batch, 1} || shape == Shape{1, 1}) return {};
  if (shape == Shape{batch, queries, total}) return is_positive(builder, mask, {batch, 1, queries, total});
  const bool square = shape.size() == 4 && shape[0] == batch && shape[1] == 1 && shape[2] == shape[3];
  require(square && shape[2] >= total && base::checked_add(past, queries) <= shape[2], ErrorKind::invalid_model,
          "the mask has shape {}, which does not fit a batch of {}, {} queries and {} keys", text_of(shape), batch,
          queries, total);
  const ValueId rows = sliced(builder, mask, 2, past, past + queries);
  return is_positive(builder, sliced(builder, rows, 3, 0, total), {batch, 1, queries, total});
}

}  // namespace

ValueId additive_mask(GraphBuilder& builder, ValueId mask, const ScoreSizes& sizes, float filter, DType type) {
  const ValueId counting = counting_keys(builder, mask, sizes);
  if (!counting.valid()) return {};
  return builder.add("Where", {counting, builder.scalar(0, type), builder.scalar(filter, type)});
}

ValueId add_optional(GraphBuilder& builder, ValueId a, ValueId b) {
  if (!a.valid()) return b;
  return b.valid() ? builder.add("Add", {a, b}) : a;
}

AttentionResult add_attention(GraphBuilder& builder, const AttentionCall& call) {
  ir::Attributes attributes{{"is_causal", std::int64_t{call.causal}}, {"softcap", call.softcap}};
  if (builder.dims(call.query)->size() == 3) {
    attributes.emplace("q_num_heads", call.query_heads);
    attributes.emplace("kv_num_heads", call.kv_heads);
  }
  if (call.scale != 0) attributes.emplace("scale", call.scale);
  if (call.wants_scores) attributes.emplace("qk_matmul_output_mode", call.scores_mode);
  std::vector<ValueId> inputs{call.query, call.key, call.value, call.mask, call.past_key, call.past_value};
  while (!inputs.back().valid()) inputs.pop_back();
  const std::size_t outputs = call.wants_scores ? 4 : call.wants_present ? 3 : 1;
  std::vector<ValueId> made = builder.add_multi("Attention", std::move(inputs), outputs, std::move(attributes));
  made.resize(4);
  return {made[0], made[1], made[2], made[3]};
}

}  // namespace tessera::ops
