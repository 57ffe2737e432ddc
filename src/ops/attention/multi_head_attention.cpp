#include "ops/attention/multi_head_attention.h"

#include <limits>

#include "base/error.h"
#include "ops/attention/shared_cache.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

// The positions of the operands after query, key and value.
struct MultiHeadAttentionPlaces {
  std::size_t bias, mask, attention_bias, past_key, past_value, past_length, cache_indirection;
};
constexpr MultiHeadAttentionPlaces kPlaces{3, 4, 5, 6, 7, 8, 9}, kDecoderPlaces{10, 3, 4, 5, 6, 7, 9};

const MultiHeadAttentionPlaces& places_of(const AttributeReader& reader) {
  return reader.op().name == "com.microsoft::MultiHeadAttention" ? kPlaces : kDecoderPlaces;
}

// The layouts of query, key and value.
enum class Layout : std::uint8_t {
  separate,     // three of [batch, length, heads * size]
  packed,       // the query is [batch, length, 3 * heads * size]: all queries, then keys, then values
  interleaved,  // the query is [batch, length, heads, 3, size]
  packed_kv,    // the key is [batch, length, heads, 2, size]
  heads_first,  // key and value are [batch, heads, length, size], and take no bias
};

struct MultiHeadAttentionSizes {
  Layout layout = Layout::separate;
  Dim batch, query_length, new_length, head_size, value_head_size;
};

MultiHeadAttentionSizes sizes_of(const InferContext& context) {
  const std::int64_t heads = head_count(context, "num_heads");
  context.check(context.has_input(1) || !context.has_input(2), "'value' is given without 'key'");
  MultiHeadAttentionSizes sizes;
  const Dims* query = context.dims(0);
  if (!context.has_input(1)) {
    const bool five = query != nullptr && query->size() == 5;
    const Dims q = dims_of_rank(context, 0, five ? 5 : 3);
    sizes = {five ? Layout::interleaved : Layout::packed, q[0], q[1], q[1], five ? q[4] : Dim(), {}};
    if (five) check_operand(context, 0, {q[0], q[1], heads, 3, q[4]});
    else sizes.head_size = head_size_of(context, q[2], 3 * heads, "query");
    sizes.value_head_size = sizes.head_size;
    return sizes;
  }
  const Dims q = dims_of_rank(context, 0, 3);
  sizes.batch = q[0];
  sizes.query_length = q[1];
  sizes.head_size = head_size_of(context, q[2], heads, "query");
  const Dims* key = context.dims(1);
  const std::size_t rank = key != nullptr ? key->size() : 3;
  context.check(rank >= 3 && rank <= 5, "'key' has shape {}, expected rank 3, 4 or 5", text_of(key));
  if (rank == 5) {
    context.check(!context.has_input(2), "'value' is given with a key that holds the values too");
    sizes.layout = Layout::packed_kv;
    sizes.new_length = (*key)[1];
    sizes.value_head_size = sizes.head_size;
    check_operand(context, 1, {q[0], Dim(), heads, 2, sizes.head_size});
    return sizes;
  }
  context.check(context.has_input(2), "'value' is missing; a key of rank {} needs it", rank);
  const Dims value = dims_of_rank(context, 2, rank);
  if (rank == 4) {
    sizes.layout = Layout::heads_first;
    sizes.new_length = (*key)[2];
    sizes.value_head_size = value[3];
    check_operand(context, 1, {q[0], heads, Dim(), sizes.head_size});
    check_operand(context, 2, {q[0], heads, sizes.new_length, Dim()});
    return sizes;
  }
  sizes.new_length = key != nullptr ? (*key)[1] : value[1];
  sizes.value_head_size = head_size_of(context, value[2], heads, "value");
  check_operand(context, 1, {q[0], Dim(), q[2]});
  check_operand(context, 2, {q[0], sizes.new_length, Dim()});
  return sizes;
}

bool shares_buffer(const AttributeReader& reader, bool has_past_length) {
  if (reader.op().name == "com.microsoft::MultiHeadAttention") return has_past_length;
  return reader.integer("past_present_share_buffer") != 0;
}

void infer_multi_head_attention(InferContext& context) {
  const MultiHeadAttentionPlaces& at = places_of(context);
  const MultiHeadAttentionSizes sizes = sizes_of(context);
  const std::int64_t heads = context.integer("num_heads");
  const bool has_past = context.has_input(at.past_key);
  context.check(has_past == context.has_input(at.past_value), "past_key and past_value must be given together");
  context.check(!has_past || sizes.layout != Layout::heads_first,
                "past_key is given with a key that is [batch, heads, length, size] itself");
  const bool shares = has_past && shares_buffer(context, context.has_input(at.past_length));
  context.check(!shares || context.has_input(at.past_length), "past_present_share_buffer needs past_sequence_length");
  const Dim past = has_past ? dims_of_rank(context, at.past_key, 4)[2] : Dim(0);
  check_operand(context, at.past_key, {sizes.batch, heads, past, sizes.head_size});
  check_operand(context, at.past_value, {sizes.batch, heads, past, sizes.value_head_size});
  check_operand(context, at.cache_indirection, {Dim(), Dim(), shares ? past : Dim()});
  check_operand(context, at.bias,
                {Dim(heads) * sizes.head_size + Dim(heads) * sizes.head_size + Dim(heads) * sizes.value_head_size});
  const Dim total = shares ? Dim() : past + sizes.new_length;
  if (context.has_input(at.attention_bias)) {
    const Dims bias = dims_of_rank(context, at.attention_bias, 4);
    check_operand(context, at.attention_bias, {Dim(), Dim(), sizes.query_length, total});
    const bool fits =
        (bias[0].may_equal(1) || bias[0].may_equal(sizes.batch)) && (bias[1].may_equal(1) || bias[1].may_equal(heads));
    context.check(fits, "'attention_bias' has shape {}, expected [{} or 1, {} or 1, ...]", text_of(bias),
                  text_of(sizes.batch), heads);
  }
  const Dim kept = shares ? past : total;
  context.set_output(0, context.dtype(0), {sizes.batch, sizes.query_length, Dim(heads) * sizes.value_head_size});
  context.set_output(1, context.dtype(0), {sizes.batch, heads, kept, sizes.head_size});
  context.set_output(2, context.dtype(0), {sizes.batch, heads, kept, sizes.value_head_size});
  context.set_output(3, context.dtype(0), {sizes.batch, heads, sizes.query_length, total});
}

// Query, key and value, [batch, length, heads * size] or with heads first.
struct Operands {
  ValueId query, key, value;
  bool heads_first = false;
};

ValueId at_index(GraphBuilder& builder, ValueId value, std::int64_t axis, std::int64_t index) {
  return builder.add("Gather", {value, builder.scalar(static_cast<double>(index), DType::i64)}, {{"axis", axis}});
}

Operands unpack(GraphBuilder& builder, std::span<const ValueId> inputs, Layout layout, std::int64_t heads) {
  const Shape query = *builder.type(inputs[0]).shape();
  // Extracts one of several interleaved operands, [batch, length, heads, several, size].
  const auto flat = [&](ValueId value, std::int64_t index) {
    const Shape shape = *builder.type(value).shape();
    return reshaped(builder, at_index(builder, value, 3, index), {shape[0], shape[1], heads * shape[4]});
  };
  switch (layout) {
    case Layout::packed: {
      const std::vector<ValueId> parts = split(builder, inputs[0], 2, std::vector<std::int64_t>(3, query[2] / 3));
      return {parts[0], parts[1], parts[2]};
    }
    case Layout::interleaved:
      return {flat(inputs[0], 0), flat(inputs[0], 1), flat(inputs[0], 2)};
    case Layout::packed_kv:
      return {inputs[0], flat(inputs[1], 0), flat(inputs[1], 1)};
    case Layout::separate:
      return {inputs[0], inputs[1], inputs[2]};
    case Layout::heads_first:
      break;
  }
  return {inputs[0], inputs[1], inputs[2], true};
}

void add_bias(GraphBuilder& builder, Operands& operands, ValueId bias, std::int64_t hidden, std::int64_t value_hidden) {
  const std::vector<ValueId> parts = split(builder, bias, 0, {hidden, hidden, value_hidden});
  operands.query = builder.add("Add", {operands.query, parts[0]});
  if (operands.heads_first) return;
  operands.key = builder.add("Add", {operands.key, parts[1]});
  operands.value = builder.add("Add", {operands.value, parts[2]});
}

// 0 where query i of the new ones may attend to key t, else -infinity: t <= past + i. The last query attends to every
// key, which matters where there are more keys than queries.
ValueId causal_mask(GraphBuilder& builder, std::int64_t queries, std::int64_t past, std::int64_t total, DType type) {
  const ValueId rows = reshaped(builder, positions(builder, queries), {queries, 1}), keys = positions(builder, total);
  const ValueId before = builder.add("LessOrEqual", {keys, builder.add("Add", {rows, builder.integers({past})})});
  const ValueId last = builder.add("Equal", {rows, builder.integers({queries - 1})});
  const ValueId never = builder.scalar(-std::numeric_limits<double>::infinity(), type);
  return builder.add("Where", {builder.add("Or", {before, last}), builder.scalar(0, type), never});
}

Layout layout_of(const std::vector<Shape>& shapes, bool has_key) {
  if (!has_key) return shapes[0].size() == 5 ? Layout::interleaved : Layout::packed;
  if (shapes[1].size() == 5) return Layout::packed_kv;
  return shapes[1].size() == 4 ? Layout::heads_first : Layout::separate;
}

// The length that a mask or bias covers when a buffer is shared; the number of held positions is known at run time
// only.
std::int64_t covered_length(const Shape& mask) {
  require(mask.size() == 2 || mask.size() == 3, ErrorKind::unsupported, "a shared buffer with a mask of shape {}",
          text_of(mask));
  return mask.back();
}

// Decomposes a node with concrete shapes into a standard Attention.
class MultiHeadAttentionDecomposition {
 public:
  MultiHeadAttentionDecomposition(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs,
                                  const std::vector<Shape>& shapes)
      : builder_(builder), reader_(reader), inputs_(inputs), shapes_(shapes), at_(places_of(reader)) {
    const std::int64_t heads = reader.integer("num_heads");
    const Operands operands = biased_operands(heads);
    const bool has_past = input(at_.past_key).valid();
    heads_first_ = operands.heads_first;
    shares_ = has_past && shares_buffer(reader, input(at_.past_length).valid());
    queries_ = shapes[0][1];
    fresh_ = (*builder.type(operands.key).shape())[heads_first_ ? 2 : 1];
    past_ = has_past && !shares_ ? shapes[at_.past_key][2] : 0;
    causal_ = &at_ == &kPlaces && reader.integer("unidirectional") != 0;
    call_.query = operands.query;
    call_.key = operands.key;
    call_.value = operands.value;
    call_.query_heads = call_.kv_heads = heads;
    call_.scale = reader.real("scale");
    call_.wants_present = wants_output(1) || wants_output(2);
    call_.wants_scores = wants_output(3);
    call_.mask = mask();
  }

  std::vector<ValueId> run() {
    AttentionResult result = shares_ ? over_shared_buffer() : over_concatenated();
    // Scores that causality masks out are the lowest finite number, not -infinity.
    if (result.scores.valid() && causal_ && builder_.dtype(result.scores) == DType::f32) {
      result.scores = builder_.add("Max", {result.scores, builder_.scalar(std::numeric_limits<float>::lowest())});
    }
    return {result.output, result.present_key, result.present_value, result.scores};
  }

 private:
  ValueId input(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : ValueId{}; }
  bool wants_output(std::size_t i) const {
    return i < reader_.node().outputs.size() && reader_.node().outputs[i].valid();
  }

  Operands biased_operands(std::int64_t heads) {
    Operands operands = unpack(builder_, inputs_, layout_of(shapes_, input(1).valid()), heads);
    if (!input(at_.bias).valid()) return operands;
    const std::int64_t hidden = (*builder_.type(operands.query).shape())[2];
    add_bias(builder_, operands, input(at_.bias), hidden, shapes_[at_.bias][0] - 2 * hidden);
    return operands;
  }

  // The sum of the given mask and bias, to be added to the scores.
  ValueId mask() {
    ValueId padding;
    if (input(at_.mask).valid()) {
      const std::int64_t total = shares_ ? covered_length(shapes_[at_.mask]) : past_ + fresh_;
      const ScoreSizes sizes{shapes_[0][0], queries_, past_, total};
      padding = additive_mask(builder_, input(at_.mask), sizes, reader_.real("mask_filter_value"),
                              builder_.dtype(inputs_[0]));
    }
    return add_optional(builder_, padding, input(at_.attention_bias));
  }

  AttentionResult over_shared_buffer() {
    for (ValueId* operand : {&call_.query, &call_.key, &call_.value})
      *operand = heads_first(builder_, *operand, call_.query_heads);
    call_.causal = causal_;
    const SharedCache cache{input(at_.past_key), input(at_.past_value), input(at_.past_length),
                            input(at_.cache_indirection)};
    AttentionResult result = add_shared_cache_attention(builder_, call_, cache);
    result.output = heads_last(builder_, result.output);
    return result;
  }

  AttentionResult over_concatenated() {
    call_.past_key = input(at_.past_key);
    call_.past_value = input(at_.past_value);
    if (causal_ && queries_ > 1) {
      call_.causal = queries_ == fresh_;
      if (!call_.causal) {
        const ValueId causal = causal_mask(builder_, queries_, past_, past_ + fresh_, builder_.dtype(call_.query));
        call_.mask = add_optional(builder_, call_.mask, causal);
      }
    }
    if (!heads_first_) return add_attention(builder_, call_);
    call_.query = heads_first(builder_, call_.query, call_.query_heads);
    AttentionResult result = add_attention(builder_, call_);
    result.output = heads_last(builder_, result.output);
    return result;
  }

  GraphBuilder& builder_;
  const AttributeReader& reader_;
  const std::span<const ValueId> inputs_;
  const std::vector<Shape>& shapes_;
  const MultiHeadAttentionPlaces& at_;
  AttentionCall call_;
  bool heads_first_ = false, shares_ = false, causal_ = false;
  std::int64_t queries_ = 0, past_ = 0, fresh_ = 0;
};

std::optional<std::vector<ValueId>> decompose_multi_head_attention(GraphBuilder& builder, const AttributeReader& reader,
                                                                   std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  return MultiHeadAttentionDecomposition(builder, reader, inputs, *shapes).run();
}

const std::vector<Parameter> kMultiHeadAttentionOutputs{{"output", types::floats, "T"},
                                                        {"present_key", types::floats, "T", optional},
                                                        {"present_value", types::floats, "T", optional},
                                                        {"qk", types::floats, "T", optional}};

}  // namespace

// softmax(scale Q K' + mask + bias) V in num_heads heads. Query, key and value have one of the layouts above; the bias
// [of queries, keys and values, concatenated] is that of their projections. For masks see additive_mask; in causal
// attention the last query attends to every key. past_sequence_length states that past and present share a buffer;
// cache_indirection [batch / beams, beams, length] then gives the beam of each held position. qk: the operand of
// softmax.
const OpDef multi_head_attention{
    .name = "com.microsoft::MultiHeadAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"query", types::floats, "T"},
               {"key", types::floats, "T", optional},
               {"value", types::floats, "T", optional},
               {"bias", types::floats, "T", optional},
               {"key_padding_mask", types::i32, "M", optional},
               {"attention_bias", types::floats, "T", optional},
               {"past_key", types::floats, "T", optional},
               {"past_value", types::floats, "T", optional},
               {"past_sequence_length", types::i32, "M", optional},
               {"cache_indirection", types::i32, "M", optional}},
    .outputs = kMultiHeadAttentionOutputs,
    .attributes = {{"num_heads", AttributeKind::integer, std::nullopt, true},
                   real_attribute("mask_filter_value", -10000.0f),
                   real_attribute("scale", 0.0f),
                   integer_attribute("unidirectional")},
    .infer = infer_multi_head_attention,
    .decompose = decompose_multi_head_attention,
};

// MultiHeadAttention for one new position per row. The beam width follows from cache_indirection.
const OpDef decoder_masked_multi_head_attention{
    .name = "com.microsoft::DecoderMaskedMultiHeadAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"query", types::floats, "T"},
               {"key", types::floats, "T", optional},
               {"value", types::floats, "T", optional},
               {"mask_index", types::i32, "M", optional},
               {"attention_bias", types::floats, "T", optional},
               {"past_key", types::floats, "T", optional},
               {"past_value", types::floats, "T", optional},
               {"past_sequence_length", types::i32, "M", optional},
               {"beam_width", types::i32, "M", optional},
               {"cache_indirection", types::i32, "M", optional},
               {"bias", types::floats, "T", optional}},
    .outputs = kMultiHeadAttentionOutputs,
    .attributes = {{"num_heads", AttributeKind::integer, std::nullopt, true},
                   real_attribute("mask_filter_value", -10000.0f),
                   integer_attribute("output_qk"),
                   integer_attribute("past_present_share_buffer"),
                   real_attribute("scale", 0.0f)},
    .infer = infer_multi_head_attention,
    .decompose = decompose_multi_head_attention,
};

}  // namespace tessera::ops
