#include "ops/group_query_attention.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/attention_parts.h"
#include "ops/check_operand.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCosines,
  kSines,
  kPositionIds,
  kAttentionBias,
  kHeadSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};

void check_attributes(const InferContext& context) {
  const std::int64_t heads = context.integer("num_heads"), kv_heads = context.integer("kv_num_heads");
  context.check(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0,
                "{} query heads are not a multiple of {} key heads", heads, kv_heads);
  const std::int64_t window = context.integer("local_window_size"), shown = context.integer("qk_output");
  context.check(window == -1 || window >= 1, "local_window_size is {}, expected -1 or at least 1", window);
  context.check(shown >= 0 && shown <= 2, "qk_output is {}, expected 0 to 2", shown);
  context.check((shown != 0) == context.wants_output(3),
                "qk_output is {}, which does not agree with the outputs that are asked for", shown);
  const bool quantised = context.text("k_quant_type") != "NONE" || context.text("v_quant_type") != "NONE" ||
                         context.integer("kv_cache_bit_width") != 0;
  require(!quantised, ErrorKind::unsupported, "a quantised cache");
  require(context.integer("sliding_window_cache") == 0, ErrorKind::unsupported, "sliding_window_cache");
}

void check_pairs(const InferContext& context) {
  const auto together = [&](std::size_t a, std::size_t b) {
    context.check(context.has_input(a) == context.has_input(b), "'{}' and '{}' must be given together",
                  context.op().inputs[a].name, context.op().inputs[b].name);
  };
  together(kKey, kValue);
  together(kPastKey, kPastValue);
  together(kCosines, kSines);
  together(kQueryNorm, kKeyNorm);
  context.check(context.integer("do_rotary") == 0 || context.has_input(kCosines),
                "do_rotary needs 'cos_cache' and 'sin_cache'");
}

// Length of the present: what the past holds space for, or as many positions as there are in all.
Dim present_length(const InferContext& context, const Dim& past, const Dim& fresh) {
  if (past.is_known() && past.value() == 0) return fresh;
  const auto total = context.constant_integers(kTotal);
  if (!total || total->size() != 1 || !past.is_known()) return {};
  return std::max(past.value(), (*total)[0]);
}

void infer(InferContext& context) {
  check_attributes(context);
  check_pairs(context);
  const std::int64_t heads = context.integer("num_heads"), kv_heads = context.integer("kv_num_heads");
  const bool packed = !context.has_input(kKey);
  const Dims query = dims_of_rank(context, kQuery, 3);
  const Dim size = head_size_of(context, query[2], packed ? heads + 2 * kv_heads : heads, "query");
  const Dim fresh = packed ? query[1] : dims_of_rank(context, kKey, 3)[1];
  check_operand(context, kKey, {query[0], fresh, Dim(kv_heads) * size});
  check_operand(context, kValue, {query[0], fresh, Dim(kv_heads) * size});
  const bool new_length_fits = fresh.may_equal(query[1]) || fresh.may_equal(0);
  context.check(new_length_fits, "there are {} new keys for {} queries, expected as many or none", to_string(fresh),
                to_string(query[1]));
  const Dim past = context.has_input(kPastKey) ? dims_of_rank(context, kPastKey, 4)[2] : Dim(0);
  check_operand(context, kPastKey, {query[0], kv_heads, past, size});
  check_operand(context, kPastValue, {query[0], kv_heads, past, size});
  check_operand(context, kLengths, {query[0]});
  const Dims* total = context.dims(kTotal);
  context.check(total == nullptr || ir::product(*total).may_equal(1),
                "'total_sequence_length' has shape {}, expected one number", total != nullptr ? to_string(*total) : "");
  if (context.has_input(kCosines)) check_operand(context, kSines, dims_of_rank(context, kCosines, 2));
  check_operand(context, kPositionIds, {query[0], query[1]});
  if (context.has_input(kAttentionBias)) {
    const Dims bias = dims_of_rank(context, kAttentionBias, 4);
    const bool fits = (bias[0].may_equal(1) || bias[0].may_equal(query[0])) &&
                      (bias[1].may_equal(1) || bias[1].may_equal(heads)) && bias[2].may_equal(query[1]);
    context.check(fits, "'attention_bias' has shape {}, expected [{} or 1, {} or 1, {}, ...]", to_string(bias),
                  to_string(query[0]), heads, to_string(query[1]));
  }
  check_operand(context, kHeadSink, {heads});
  check_operand(context, kQueryNorm, {size});
  check_operand(context, kKeyNorm, {size});
  const DType type = context.dtype(kQuery);
  const Dims present{query[0], kv_heads, present_length(context, past, fresh), size};
  context.set_output(0, type, {query[0], query[1], Dim(heads) * size});
  context.set_output(1, type, present);
  context.set_output(2, type, present);
  const auto total_value = context.constant_integers(kTotal);
  context.set_output(
      3, type, {query[0], heads, query[1], total_value && total_value->size() == 1 ? Dim((*total_value)[0]) : Dim()});
}

// A node whose shapes are concrete, on its way to a standard Attention over a cache of [past, new] positions. How many
// of them count is data: of row b, `lengths[b]` in all, `held[b]` of the past, the new ones behind these.
class Decomposition {
 public:
  Decomposition(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs,
                const std::vector<Shape>& shapes)
      : builder_(builder),
        reader_(reader),
        inputs_(inputs),
        shapes_(shapes),
        heads_(reader.integer("num_heads")),
        kv_heads_(reader.integer("kv_num_heads")) {
    batch_ = shapes[kQuery][0];
    queries_ = shapes[kQuery][1];
    packed_ = !input(kKey).valid();
    size_ = shapes[kQuery][2] / (packed_ ? heads_ + 2 * kv_heads_ : heads_);
    fresh_ = packed_ ? queries_ : shapes[kKey][1];
    past_ = input(kPastKey).valid() ? shapes[kPastKey][2] : 0;
    type_ = builder.dtype(inputs[kQuery]);
    total_ = reshaped(builder, cast_to(builder, inputs[kTotal], DType::i64), {1});
    lengths_ = builder.add("Add", {cast_to(builder, inputs[kLengths], DType::i64), builder.integers({1})});
    is_prompt_ = builder.add("Equal", {total_, builder.integers({queries_})});
    held_ = builder.add(
        "Where", {is_prompt_, builder.integers({0}), builder.add("Sub", {lengths_, builder.integers({queries_})})});
  }

  std::vector<ValueId> run() {
    ValueId query = inputs_[kQuery], key = input(kKey), value = input(kValue);
    if (packed_) {
      const std::vector<ValueId> parts =
          split(builder_, query, 2, {heads_ * size_, kv_heads_ * size_, kv_heads_ * size_});
      query = parts[0], key = parts[1], value = parts[2];
    }
    query = normalised(query, heads_, input(kQueryNorm));
    key = normalised(key, kv_heads_, input(kKeyNorm));
    if (reader_.integer("do_rotary") != 0) {
      const ValueId ids = position_ids();
      query = rotated(query, heads_, ids);
      if (fresh_ > 0) key = rotated(key, kv_heads_, ids);
    }
    const ValueId keys = filled_cache(input(kPastKey), heads_first(builder_, key, kv_heads_));
    const ValueId values = filled_cache(input(kPastValue), heads_first(builder_, value, kv_heads_));
    const AttentionResult result = attend(heads_first(builder_, query, heads_), keys, values);
    return {heads_last(builder_, result.output), present(keys), present(values),
            result.scores.valid() ? shown(result.scores) : ValueId{}};
  }

 private:
  ValueId input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : ValueId{}; }
  // [batch] as [batch, 1, 1, 1]
  ValueId column(ValueId value) { return reshaped(builder_, value, {batch_, 1, 1, 1}); }

  ValueId normalised(ValueId packed, std::int64_t heads, ValueId weight) {
    if (!weight.valid()) return packed;
    const Shape shape = *builder_.type(packed).shape();
    const ValueId apart = reshaped(builder_, packed, {shape[0], shape[1], heads, size_});
    return reshaped(builder_,
                    builder_.add("RMSNormalization", {apart, weight}, {{"epsilon", reader_.real("qk_norm_epsilon")}}),
                    shape);
  }

  // [batch, queries]. Of a prompt only the first given position counts; the others follow it.
  ValueId position_ids() {
    const ValueId offsets = positions(builder_, queries_);
    const ValueId counted = builder_.add("Add", {reshaped(builder_, held_, {batch_, 1}), offsets});
    if (!input(kPositionIds).valid() || batch_ * queries_ == 0) return counted;
    const ValueId first = sliced(builder_, reshaped(builder_, inputs_[kPositionIds], {batch_ * queries_}), 0, 0, 1);
    return builder_.add("Where", {is_prompt_, builder_.add("Add", {first, offsets}), inputs_[kPositionIds]});
  }

  ValueId rotated(ValueId packed, std::int64_t heads, ValueId ids) {
    return builder_.add("RotaryEmbedding", {packed, inputs_[kCosines], inputs_[kSines], ids},
                        {{"interleaved", reader_.integer("rotary_interleaved")},
                         {"num_heads", heads},
                         {"rotary_embedding_dim", 2 * shapes_[kCosines][1]}});
  }

  // [batch, kv heads, past + new, size]: what is held, the new positions, zeros.
  ValueId filled_cache(ValueId past, ValueId fresh) {
    if (past_ == 0) return fresh;
    // Without new positions (another layer's cache is read) all that count are held.
    const ValueId kept = fresh_ > 0 ? held_ : lengths_;
    const ValueId is_kept =
        builder_.add("Less", {reshaped(builder_, positions(builder_, past_), {past_, 1}), column(kept)});
    const ValueId cache = builder_.add("Where", {is_kept, past, builder_.scalar(0, type_)});
    if (fresh_ == 0) return cache;
    const ValueId longer = builder_.add("Pad", {cache, builder_.integers({0, 0, 0, 0, 0, 0, fresh_, 0})});
    return builder_.add("TensorScatter", {longer, fresh, held_});
  }

  // As long as the past, or as all positions if these are more.
  ValueId present(ValueId cache) {
    if (past_ == 0 || fresh_ == 0) return cache;
    const ValueId end = builder_.add("Max", {total_, builder_.integers({past_})});
    return builder_.add("Slice", {cache, builder_.integers({0}), end, builder_.integers({2})});
  }

  // True where a query may look at a position of the cache, [batch, 1, queries or 1, past + new].
  ValueId visible() {
    const ValueId keys = positions(builder_, past_ + fresh_), filled = builder_.add("Less", {keys, column(lengths_)});
    if (reader_.integer("causal") == 0) return filled;
    const ValueId rows =
        builder_.add("Add", {column(held_), reshaped(builder_, positions(builder_, queries_), {queries_, 1})});
    const ValueId causal = builder_.add("And", {filled, builder_.add("LessOrEqual", {keys, rows})});
    const std::int64_t window = reader_.integer("local_window_size");
    if (window < 0) return causal;
    return builder_.add(
        "And", {causal, builder_.add("Greater", {keys, builder_.add("Sub", {rows, builder_.integers({window})})})});
  }

  // The bias cut or extended to the cache's length; beyond what is held nothing is seen.
  ValueId bias() {
    const ValueId given = input(kAttentionBias);
    if (!given.valid()) return builder_.scalar(0, type_);
    const std::int64_t missing = past_ + fresh_ - shapes_[kAttentionBias][3];
    if (missing <= 0) return sliced(builder_, given, 3, 0, past_ + fresh_);
    return builder_.add("Pad", {given, builder_.integers({0, 0, 0, 0, 0, 0, 0, missing})});
  }

  AttentionResult attend(ValueId query, ValueId keys, ValueId values) {
    AttentionCall call{.query = query, .key = keys, .value = values};
    call.query_heads = heads_;
    call.kv_heads = kv_heads_;
    call.scale = reader_.real("scale");
    call.softcap = reader_.real("softcap");
    call.wants_scores = reader_.integer("qk_output") != 0;
    call.scores_mode = reader_.integer("qk_output") == 1 ? 2 : 3;
    call.mask = visible_ = visible();
    const bool has_sink = input(kHeadSink).valid() || reader_.integer("smooth_softmax") == 1;
    if (input(kAttentionBias).valid() || has_sink) {
      call.mask =
          builder_.add("Where", {visible_, bias(), builder_.scalar(-std::numeric_limits<double>::infinity(), type_)});
    }
    if (has_sink) add_sink(call);
    return add_attention(builder_, call);
  }

  // A term exp(sink of the head) more in the denominator of softmax: a position of zeros with that score.
  void add_sink(AttentionCall& call) {
    const ValueId zero = builder_.scalar(0, type_);
    const auto expanded = [&](ValueId value, Shape shape) {
      return builder_.add("Expand", {value, builder_.integers(std::move(shape))});
    };
    const auto with_position = [&](ValueId cache) {
      return builder_.add("Concat", {cache, expanded(zero, {batch_, kv_heads_, 1, size_})},
                          {{"axis", std::int64_t{2}}});
    };
    call.key = with_position(call.key);
    call.value = with_position(call.value);
    const ValueId sink = input(kHeadSink).valid() ? reshaped(builder_, inputs_[kHeadSink], {1, heads_, 1, 1}) : zero;
    call.mask = builder_.add("Concat",
                             {expanded(call.mask, {batch_, heads_, queries_, past_ + fresh_}),
                              expanded(sink, {batch_, heads_, queries_, 1})},
                             {{"axis", std::int64_t{3}}});
  }

  // What qk_output asks for, of all positions; 0 where nothing is seen.
  ValueId shown(ValueId scores) {
    const ValueId all = sliced(builder_, scores, 3, 0, past_ + fresh_);
    const ValueId seen = builder_.add("Where", {visible_, all, builder_.scalar(0, type_)});
    if (past_ == 0) return seen;
    return builder_.add("Slice", {seen, builder_.integers({0}), total_, builder_.integers({3})});
  }

  GraphBuilder& builder_;
  const AttributeReader& reader_;
  const std::span<const ValueId> inputs_;
  const std::vector<Shape>& shapes_;
  const std::int64_t heads_, kv_heads_;
  std::int64_t batch_ = 0, queries_ = 0, fresh_ = 0, past_ = 0, size_ = 0;
  bool packed_ = false;
  DType type_ = DType::f32;
  ValueId total_, lengths_, is_prompt_, held_, visible_;
};

std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const AttributeReader& reader,
                                              std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  return Decomposition(builder, reader, inputs, *shapes).run();
}

constexpr TypeSet kFloats{DType::f32, DType::f16, DType::bf16}, kInteger{DType::i32};

AttributeSpec integer(std::string_view name, std::int64_t value) {
  return {name, AttributeKind::integer, ir::Attribute(value)};
}
AttributeSpec real(std::string_view name, float value) {
  return {name, AttributeKind::real, ir::Attribute(value)};
}
AttributeSpec none(std::string_view name) {
  return {name, AttributeKind::text, ir::Attribute(std::string("NONE"))};
}

}  // namespace

// softmax(softcap(scale Q K') + attention_bias) V over the positions up to the query's own, at most local_window_size
// of them. seqlens_k: positions of each row in all, less one; total_sequence_length: the most of any row. When that is
// the number of queries they are a prompt, which begins at 0; else they are the last positions of each row, behind what
// past holds. Queries and keys are normalised (q_norm_weight) and rotated (do_rotary) by their position first.
// head_sink, or smooth_softmax with 0, adds exp(sink) to the denominator of softmax. qk_output 1 shows what goes into
// softmax, 2 what comes out.
const OpDef group_query_attention{
    .name = "com.microsoft::GroupQueryAttention",
    .since = 1,
    .inputs = {{"query", kFloats, "T"},
               {"key", kFloats, "T", optional},
               {"value", kFloats, "T", optional},
               {"past_key", kFloats, "T", optional},
               {"past_value", kFloats, "T", optional},
               {"seqlens_k", kInteger, "M"},
               {"total_sequence_length", kInteger, "M"},
               {"cos_cache", kFloats, "T", optional},
               {"sin_cache", kFloats, "T", optional},
               {"position_ids", types::i64, "", optional},
               {"attention_bias", kFloats, "T", optional},
               {"head_sink", kFloats, "T", optional},
               {"k_scale", {DType::f32}, "", optional},
               {"v_scale", {DType::f32}, "", optional},
               {"q_norm_weight", kFloats, "T", optional},
               {"k_norm_weight", kFloats, "T", optional}},
    .outputs = {{"output", kFloats, "T"},
                {"present_key", kFloats, "T", optional},
                {"present_value", kFloats, "T", optional},
                {"output_qk", kFloats, "T", optional}},
    .attributes = {{"num_heads", AttributeKind::integer, std::nullopt, true},
                   {"kv_num_heads", AttributeKind::integer, std::nullopt, true},
                   integer("causal", 1),
                   integer("do_rotary", 0),
                   none("k_quant_type"),
                   integer("kv_cache_bit_width", 0),
                   integer("local_window_size", -1),
                   real("qk_norm_epsilon", 1e-6f),
                   integer("qk_output", 0),
                   integer("rotary_interleaved", 0),
                   real("scale", 0.0f),
                   integer("sliding_window_cache", 0),
                   integer("smooth_softmax", -1),
                   real("softcap", 0.0f),
                   none("v_quant_type")},
    .infer = infer,
    .decompose = decompose,
};

}  // namespace tessera::ops
