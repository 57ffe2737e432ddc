#include "ops/attention/shared_cache.h"

#include <limits>

namespace tessera::ops {
namespace {

using ir::ValueId;

// The cache as each row of the batch sees it: [b, h, t, e] = cache[group of b * beams + beam_of_position[b, t], h, t,
// e]. Entries of beam_of_position for positions that are not held are ignored.
ValueId follow_beams(GraphBuilder& builder, ValueId cache, ValueId beam_of_position, ValueId held) {
  const Shape shape = *builder.type(cache).shape(), beams = *builder.type(beam_of_position).shape();
  const std::int64_t heads = shape[1], length = shape[2], size = shape[3];
  const ValueId is_held = builder.add("Less", {positions(builder, length), held});
  const ValueId known =
      builder.add("Where", {is_held, builder.cast(beam_of_position, DType::i64), builder.scalar(0, DType::i64)});
  const Shape grouped{beams[0], beams[1], heads, length, size};
  const ValueId rows = reshaped(builder, known, {beams[0], beams[1], 1, length, 1});
  const ValueId indices = builder.add("Expand", {rows, builder.integers(grouped)});
  return reshaped(
      builder, builder.add("GatherElements", {reshaped(builder, cache, grouped), indices}, {{"axis", std::int64_t{1}}}),
      shape);
}

// True where a query may attend to a position of the cache: [queries or 1, length].
ValueId visible(GraphBuilder& builder, ValueId held, std::int64_t queries, std::int64_t fresh, std::int64_t length,
                bool causal) {
  const ValueId keys = positions(builder, length);
  const ValueId total = builder.add("Add", {held, builder.integers({fresh})});
  const ValueId filled = builder.add("Less", {keys, total});
  if (!causal || queries == 1) return filled;
  const ValueId rows = builder.add("Add", {reshaped(builder, positions(builder, queries), {queries, 1}), held});
  return builder.add("And", {filled, builder.add("LessOrEqual", {keys, rows})});
}

// The mask extended to the length of the cache, with invisible positions excluded.
ValueId restricted(GraphBuilder& builder, ValueId mask, ValueId seen, std::int64_t length) {
  const Shape shape = *builder.type(mask).shape();
  const DType type = builder.dtype(mask);
  const ValueId padded = builder.add("Pad", {mask, builder.integers({0, 0, 0, 0, 0, 0, 0, length - shape[3]})});
  return builder.add("Where", {seen, padded, builder.scalar(-std::numeric_limits<double>::infinity(), type)});
}

}  // namespace

AttentionResult add_shared_cache_attention(GraphBuilder& builder, AttentionCall call, const SharedCache& cache) {
  const Shape query = *builder.type(call.query).shape(), fresh = *builder.type(call.key).shape();
  const std::int64_t length = (*builder.type(cache.key).shape())[2];
  const ValueId held = reshaped(builder, builder.cast(cache.length, DType::i64), {1});
  const ValueId write_at = builder.add("Expand", {held, builder.integers({query[0]})});
  const auto filled = [&](ValueId buffer, ValueId update) {
    return builder.add("TensorScatter", {buffer, update, write_at});
  };
  const auto seen = [&](ValueId buffer, ValueId update, ValueId present) {
    if (!cache.beam_of_position.valid()) return present;
    return filled(follow_beams(builder, buffer, cache.beam_of_position, held), update);
  };
  const ValueId present_key = filled(cache.key, call.key), present_value = filled(cache.value, call.value);
  call.key = seen(cache.key, call.key, present_key);
  call.value = seen(cache.value, call.value, present_value);
  const ValueId allowed = visible(builder, held, query[2], fresh[2], length, call.causal);
  call.mask = call.mask.valid() ? restricted(builder, call.mask, allowed, length) : allowed;
  call.causal = call.wants_present = false;
  AttentionResult result = add_attention(builder, call);
  result.present_key = present_key;
  result.present_value = present_value;
  if (result.scores.valid()) {
    const ValueId total = builder.add("Add", {held, builder.integers({fresh[2]})});
    result.scores = builder.add("Slice", {result.scores, builder.integers({0}), total, builder.integers({3})});
  }
  return result;
}

}  // namespace tessera::ops
