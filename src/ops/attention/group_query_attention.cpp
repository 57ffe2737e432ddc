#include "ops/attention/group_query_attention.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/attention/cache_coding.h"
#include "ops/attention/grouped_cache.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

void check_group_query_attention_attributes(const InferContext& context) {
  const std::int64_t heads = head_count(context, "num_heads"), kv_heads = head_count(context, "kv_num_heads");
  context.check(heads % kv_heads == 0, "{} query heads are not a multiple of {} key heads", heads, kv_heads);
  const std::int64_t window = context.integer("local_window_size"), shown = context.integer("qk_output");
  context.check(window == -1 || window >= 1, "local_window_size is {}, expected -1 or at least 1", window);
  context.check(shown >= 0 && shown <= 2, "qk_output is {}, expected 0 to 2", shown);
  context.check((shown != 0) == context.wants_output(3),
                "qk_output is {}, which does not agree with the outputs that are asked for", shown);
  const bool slides = context.integer("sliding_window_cache") != 0;
  context.check(!slides || (window > 0 && context.has_input(kGroupPastKey)),
                "sliding_window_cache needs local_window_size and 'past_key'");
  require(!slides || shown == 0, ErrorKind::unsupported, "qk_output with sliding_window_cache");
}

// Element type of the cache.
DType cache_type(const InferContext& context) {
  const std::int64_t bits = context.integer("kv_cache_bit_width");
  const std::string& coding = context.text("k_quant_type");
  context.check(coding == context.text("v_quant_type"), "k_quant_type is {}, but v_quant_type is {}", coding,
                context.text("v_quant_type"));
  context.check(coding == "NONE" || coding == "PER_TENSOR" || coding == "PER_CHANNEL",
                "k_quant_type is '{}', expected NONE, PER_TENSOR or PER_CHANNEL", coding);
  context.check(coding == "NONE" ? bits == 0 : bits == 4 || bits == 8, "kv_cache_bit_width is {} with k_quant_type {}",
                bits, coding);
  context.check(bits == 0 || (context.has_input(kGroupKeyScale) && context.has_input(kGroupValueScale)),
                "a quantised cache needs 'k_scale' and 'v_scale'");
  const DType type = bits == 0 ? context.dtype(kGroupQuery) : bits == 8 ? DType::i8 : DType::u8;
  for (const std::size_t i : {kGroupPastKey, kGroupPastValue}) {
    if (!context.has_input(i)) continue;
    context.check(context.dtype(i) == type, "'{}' is {}, expected {}", context.op().inputs[i].name,
                  name_of(context.dtype(i)), name_of(type));
  }
  return type;
}

// Checks that key and value scales have one element, or one per channel.
void check_group_query_attention_scales(const InferContext& context, std::int64_t kv_heads, const Dim& size) {
  const Dim wanted = context.text("k_quant_type") == "PER_CHANNEL" ? Dim(kv_heads) * size : Dim(1);
  for (const std::size_t i : {kGroupKeyScale, kGroupValueScale}) {
    if (!context.has_input(i) || context.dims(i) == nullptr || context.integer("kv_cache_bit_width") == 0) continue;
    context.check(ir::product(*context.dims(i)).may_equal(wanted), "'{}' has shape {}, expected {} elements",
                  context.op().inputs[i].name, to_string(*context.dims(i)), to_string(wanted));
  }
}

void check_pairs(const InferContext& context) {
  const auto together = [&](std::size_t a, std::size_t b) {
    context.check(context.has_input(a) == context.has_input(b), "'{}' and '{}' must be given together",
                  context.op().inputs[a].name, context.op().inputs[b].name);
  };
  together(kGroupKey, kGroupValue);
  together(kGroupPastKey, kGroupPastValue);
  together(kGroupCosines, kGroupSines);
  together(kGroupQueryNorm, kGroupKeyNorm);
  context.check(context.integer("do_rotary") == 0 || context.has_input(kGroupCosines),
                "do_rotary needs 'cos_cache' and 'sin_cache'");
}

// The length of the present: the length of the past's buffer, or the number of all positions.
Dim present_length(const InferContext& context, const Dim& past, const Dim& fresh) {
  if (context.integer("sliding_window_cache") != 0) return past;
  if (past.is_known() && past.value() == 0) return fresh;
  const auto total = context.constant_integers(kGroupTotal);
  if (!total || total->size() != 1 || !past.is_known()) return {};
  return std::max(past.value(), (*total)[0]);
}

void infer_group_query_attention(InferContext& context) {
  check_group_query_attention_attributes(context);
  check_pairs(context);
  const std::int64_t heads = context.integer("num_heads"), kv_heads = context.integer("kv_num_heads");
  const bool packed = !context.has_input(kGroupKey);
  const Dims query = dims_of_rank(context, kGroupQuery, 3);
  const Dim size = head_size_of(context, query[2], packed ? heads + 2 * kv_heads : heads, "query");
  const Dim fresh = packed ? query[1] : dims_of_rank(context, kGroupKey, 3)[1];
  check_operand(context, kGroupKey, {query[0], fresh, Dim(kv_heads) * size});
  check_operand(context, kGroupValue, {query[0], fresh, Dim(kv_heads) * size});
  const bool new_length_fits = fresh.may_equal(query[1]) || fresh.may_equal(0);
  context.check(new_length_fits, "there are {} new keys for {} queries, expected as many or none", to_string(fresh),
                to_string(query[1]));
  const Dim past = context.has_input(kGroupPastKey) ? dims_of_rank(context, kGroupPastKey, 4)[2] : Dim(0);
  const DType stored = cache_type(context);
  check_group_query_attention_scales(context, kv_heads, size);
  Dim stored_size = size;
  if (stored == DType::u8 && size.is_known()) {
    context.check(size.value() % 2 == 0, "a cache of 4 bits with heads of size {}, expected an even size",
                  size.value());
    stored_size = size.value() / 2;
  }
  check_operand(context, kGroupPastKey, {query[0], kv_heads, past, stored_size});
  check_operand(context, kGroupPastValue, {query[0], kv_heads, past, stored_size});
  if (context.integer("sliding_window_cache") != 0 && past.is_known()) {
    context.check(past.value() >= context.integer("local_window_size"),
                  "a cache of {} is shorter than local_window_size {}", past.value(),
                  context.integer("local_window_size"));
  }
  check_operand(context, kGroupLengths, {query[0]});
  const Dims* total = context.dims(kGroupTotal);
  context.check(total == nullptr || ir::product(*total).may_equal(1),
                "'total_sequence_length' has shape {}, expected one number", total != nullptr ? to_string(*total) : "");
  if (context.has_input(kGroupCosines)) check_operand(context, kGroupSines, dims_of_rank(context, kGroupCosines, 2));
  check_operand(context, kGroupPositionIds, {query[0], query[1]});
  if (context.has_input(kGroupAttentionBias)) {
    const Dims bias = dims_of_rank(context, kGroupAttentionBias, 4);
    const bool fits = (bias[0].may_equal(1) || bias[0].may_equal(query[0])) &&
                      (bias[1].may_equal(1) || bias[1].may_equal(heads)) && bias[2].may_equal(query[1]);
    context.check(fits, "'attention_bias' has shape {}, expected [{} or 1, {} or 1, {}, ...]", to_string(bias),
                  to_string(query[0]), heads, to_string(query[1]));
  }
  check_operand(context, kGroupHeadSink, {heads});
  check_operand(context, kGroupQueryNorm, {size});
  check_operand(context, kGroupKeyNorm, {size});
  const DType type = context.dtype(kGroupQuery);
  const Dims present{query[0], kv_heads, present_length(context, past, fresh), stored_size};
  context.set_output(0, type, {query[0], query[1], Dim(heads) * size});
  context.set_output(1, stored, present);
  context.set_output(2, stored, present);
  const auto total_value = context.constant_integers(kGroupTotal);
  context.set_output(
      3, type, {query[0], heads, query[1], total_value && total_value->size() == 1 ? Dim((*total_value)[0]) : Dim()});
}

// Decomposes a node with concrete shapes into a standard Attention over its cache.
class GroupQueryAttentionDecomposition {
 public:
  GroupQueryAttentionDecomposition(GraphBuilder& builder, const AttributeReader& reader,
                                   std::span<const ValueId> inputs, const std::vector<Shape>& shapes)
      : builder_(builder),
        reader_(reader),
        inputs_(inputs),
        shapes_(shapes),
        sizes_(sizes_of(reader, inputs, shapes)),
        cache_(builder, sizes_, inputs[kGroupLengths], inputs[kGroupTotal]),
        heads_(reader.integer("num_heads")),
        type_(builder.dtype(inputs[kGroupQuery])) {}

  std::vector<ValueId> run() {
    ValueId query = inputs_[kGroupQuery], key = input(kGroupKey), value = input(kGroupValue);
    const std::int64_t kv_hidden = sizes_.kv_heads * sizes_.head_size;
    if (!key.valid()) {
      const std::vector<ValueId> parts = split(builder_, query, 2, {heads_ * sizes_.head_size, kv_hidden, kv_hidden});
      query = parts[0], key = parts[1], value = parts[2];
    }
    query = normalised(query, heads_, input(kGroupQueryNorm));
    key = normalised(key, sizes_.kv_heads, input(kGroupKeyNorm));
    if (reader_.integer("do_rotary") != 0) {
      const ValueId ids = position_ids();
      query = rotated(query, heads_, ids);
      if (sizes_.fresh > 0) key = rotated(key, sizes_.kv_heads, ids);
    }
    const Cached keys = cached(input(kGroupPastKey), key, input(kGroupKeyScale)),
                 values = cached(input(kGroupPastValue), value, input(kGroupValueScale));
    const AttentionResult result = attend(heads_first(builder_, query, heads_), keys.values, values.values);
    return {heads_last(builder_, result.output), keys.present, values.present,
            result.scores.valid() ? shown(result.scores) : ValueId{}};
  }

 private:
  struct Cached {
    ValueId values, present;
  };

  static GroupedCacheSizes sizes_of(const AttributeReader& reader, std::span<const ValueId> inputs,
                                    const std::vector<Shape>& shapes) {
    const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
    const std::int64_t heads = reader.integer("num_heads");
    GroupedCacheSizes sizes;
    sizes.batch = shapes[kGroupQuery][0];
    sizes.kv_heads = reader.integer("kv_num_heads");
    sizes.queries = shapes[kGroupQuery][1];
    sizes.head_size = shapes[kGroupQuery][2] / (given(kGroupKey) ? heads : heads + 2 * sizes.kv_heads);
    sizes.fresh = given(kGroupKey) ? shapes[kGroupKey][1] : sizes.queries;
    sizes.past = given(kGroupPastKey) ? shapes[kGroupPastKey][2] : 0;
    sizes.window = reader.integer("local_window_size");
    sizes.causal = reader.integer("causal") != 0;
    sizes.slides = reader.integer("sliding_window_cache") != 0;
    return sizes;
  }

  ValueId input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : ValueId{}; }

  ValueId normalised(ValueId packed, std::int64_t heads, ValueId weight) {
    if (!weight.valid()) return packed;
    const Shape shape = *builder_.type(packed).shape();
    const ValueId apart = reshaped(builder_, packed, {shape[0], shape[1], heads, sizes_.head_size});
    const ir::Attributes epsilon{{"epsilon", reader_.real("qk_norm_epsilon")}};
    return reshaped(builder_, builder_.add("RMSNormalization", {apart, weight}, epsilon), shape);
  }

  // [batch, queries]. For a prompt only the first given position counts; the others follow it.
  ValueId position_ids() {
    const std::int64_t count = base::checked_multiply(sizes_.batch, sizes_.queries);
    if (!input(kGroupPositionIds).valid() || count == 0) return cache_.query_positions();
    const ValueId first = sliced(builder_, reshaped(builder_, inputs_[kGroupPositionIds], {count}), 0, 0, 1);
    const ValueId following = builder_.add("Add", {first, positions(builder_, sizes_.queries)});
    return builder_.add("Where", {cache_.is_prompt(), following, inputs_[kGroupPositionIds]});
  }

  ValueId rotated(ValueId packed, std::int64_t heads, ValueId ids) {
    return builder_.add("RotaryEmbedding", {packed, inputs_[kGroupCosines], inputs_[kGroupSines], ids},
                        {{"interleaved", reader_.integer("rotary_interleaved")},
                         {"num_heads", heads},
                         {"rotary_embedding_dim", base::checked_multiply(2, shapes_[kGroupCosines][1])}});
  }

  Cached cached(ValueId past, ValueId fresh, ValueId scale) {
    ValueId rows = heads_first(builder_, fresh, sizes_.kv_heads);
    const std::int64_t bits = reader_.integer("kv_cache_bit_width");
    if (bits == 0) {
      const ValueId filled = cache_.filled(past, rows);
      return {filled, cache_.present(filled)};
    }
    const bool a_channel = reader_.text("k_quant_type") == "PER_CHANNEL";
    const Shape scales = a_channel ? Shape{1, sizes_.kv_heads, 1, sizes_.head_size} : Shape{1, 1, 1, 1};
    const CacheCoding coding{bits, reshaped(builder_, scale, scales), type_};
    const ValueId filled = cache_.filled(past, encoded(builder_, coding, rows));
    return {decoded(builder_, coding, filled), cache_.present(filled)};
  }

  AttentionResult attend(ValueId query, ValueId keys, ValueId values) {
    AttentionCall call{.query = query, .key = keys, .value = values};
    call.query_heads = heads_;
    call.kv_heads = sizes_.kv_heads;
    call.scale = reader_.real("scale");
    call.softcap = reader_.real("softcap");
    call.wants_scores = reader_.integer("qk_output") != 0;
    call.scores_mode = reader_.integer("qk_output") == 1 ? 2 : 3;
    call.mask = visible_ = cache_.visible();
    const ValueId bias = input(kGroupAttentionBias);
    const bool has_sink = input(kGroupHeadSink).valid() || reader_.integer("smooth_softmax") == 1;
    if (bias.valid() || has_sink) {
      const ValueId scores = bias.valid() ? cache_.bias(bias) : builder_.scalar(0, type_);
      const ValueId never = builder_.scalar(-std::numeric_limits<double>::infinity(), type_);
      call.mask = builder_.add("Where", {visible_, scores, never});
    }
    if (has_sink) add_sink(call);
    return add_attention(builder_, call);
  }

  // Adds a term exp(sink of the head) to the denominator of softmax, as a position of zeros with that score.
  void add_sink(AttentionCall& call) {
    const ValueId zero = builder_.scalar(0, type_);
    const auto expanded = [&](ValueId value, Shape shape) {
      return builder_.add("Expand", {value, builder_.integers(std::move(shape))});
    };
    const auto with_position = [&](ValueId rows) {
      const ValueId position = expanded(zero, {sizes_.batch, sizes_.kv_heads, 1, sizes_.head_size});
      return builder_.add("Concat", {rows, position}, {{"axis", std::int64_t{2}}});
    };
    call.key = with_position(call.key);
    call.value = with_position(call.value);
    const ValueId given = input(kGroupHeadSink);
    const ValueId sink = given.valid() ? reshaped(builder_, given, {1, heads_, 1, 1}) : zero;
    const ValueId scores = expanded(call.mask, {sizes_.batch, heads_, sizes_.queries, cache_.length()});
    const ValueId last = expanded(sink, {sizes_.batch, heads_, sizes_.queries, 1});
    call.mask = builder_.add("Concat", {scores, last}, {{"axis", std::int64_t{3}}});
  }

  // The output qk_output over all positions; 0 where a position is not visible.
  ValueId shown(ValueId scores) {
    const ValueId all = sliced(builder_, scores, 3, 0, cache_.length());
    const ValueId seen = builder_.add("Where", {visible_, all, builder_.scalar(0, type_)});
    if (sizes_.past == 0) return seen;
    return builder_.add("Slice", {seen, builder_.integers({0}), cache_.total(), builder_.integers({3})});
  }

  GraphBuilder& builder_;
  const AttributeReader& reader_;
  const std::span<const ValueId> inputs_;
  const std::vector<Shape>& shapes_;
  const GroupedCacheSizes sizes_;
  GroupedCache cache_;
  const std::int64_t heads_;
  const DType type_;
  ValueId visible_;
};

std::optional<std::vector<ValueId>> decompose_group_query_attention(GraphBuilder& builder,
                                                                    const AttributeReader& reader,
                                                                    std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  return GroupQueryAttentionDecomposition(builder, reader, inputs, *shapes).run();
}

constexpr TypeSet kCache = types::floats_to_f32 | TypeSet{DType::i8, DType::u8};

AttributeSpec none(std::string_view name) {
  return {name, AttributeKind::text, ir::Attribute(std::string("NONE"))};
}

}  // namespace

// softmax(softcap(scale Q K') + attention_bias) V over the positions up to the query's own, at most local_window_size
// of them. seqlens_k: the number of all positions of each row, less one; total_sequence_length: the largest number of
// any row. If that is the number of queries, the queries are a prompt, which begins at position 0; otherwise they are
// the last positions of each row, behind those in past. Queries and keys are first normalised (q_norm_weight) and
// rotated (do_rotary) by their position. head_sink, or smooth_softmax with 0, adds exp(sink) to the denominator of
// softmax. qk_output 1 returns the operand of softmax, 2 its result. The cache may be coded in 8 or 4 bits
// (k_quant_type), and may hold the last positions only (sliding_window_cache).
const OpDef group_query_attention{
    .name = "com.microsoft::GroupQueryAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"query", types::floats_to_f32, "T"},
               {"key", types::floats_to_f32, "T", optional},
               {"value", types::floats_to_f32, "T", optional},
               {"past_key", kCache, "T_CACHE", optional},
               {"past_value", kCache, "T_CACHE", optional},
               {"seqlens_k", types::i32, "M"},
               {"total_sequence_length", types::i32, "M"},
               {"cos_cache", types::floats_to_f32, "T", optional},
               {"sin_cache", types::floats_to_f32, "T", optional},
               {"position_ids", types::i64, "", optional},
               {"attention_bias", types::floats_to_f32, "T", optional},
               {"head_sink", types::floats_to_f32, "T", optional},
               {"k_scale", {DType::f32}, "", optional},
               {"v_scale", {DType::f32}, "", optional},
               {"q_norm_weight", types::floats_to_f32, "T", optional},
               {"k_norm_weight", types::floats_to_f32, "T", optional}},
    .outputs = {{"output", types::floats_to_f32, "T"},
                {"present_key", kCache, "T_CACHE", optional},
                {"present_value", kCache, "T_CACHE", optional},
                {"output_qk", types::floats_to_f32, "T", optional}},
    .attributes = {{"num_heads", AttributeKind::integer, std::nullopt, true},
                   {"kv_num_heads", AttributeKind::integer, std::nullopt, true},
                   integer_attribute("causal", 1),
                   integer_attribute("do_rotary", 0),
                   none("k_quant_type"),
                   integer_attribute("kv_cache_bit_width", 0),
                   integer_attribute("local_window_size", -1),
                   real_attribute("qk_norm_epsilon", 1e-6f),
                   integer_attribute("qk_output", 0),
                   integer_attribute("rotary_interleaved", 0),
                   real_attribute("scale", 0.0f),
                   integer_attribute("sliding_window_cache", 0),
                   integer_attribute("smooth_softmax", -1),
                   real_attribute("softcap", 0.0f),
                   none("v_quant_type")},
    .infer = infer_group_query_attention,
    .decompose = decompose_group_query_attention,
};

}  // namespace tessera::ops
