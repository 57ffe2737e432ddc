#include "ops/attention/microsoft_attention.h"

#include <cmath>

#include "base/error.h"
#include "ops/attention/shared_cache.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

// The positions of the operands in the inputs of each operator.
struct MicrosoftAttentionPlaces {
  std::size_t mask, past;
};
constexpr MicrosoftAttentionPlaces kFloatPlaces{3, 4}, kQuantisedPlaces{5, 8};
constexpr std::size_t kAttentionBias = 5, kPastLength = 6;

// The sizes of the projections of Q (and K) and V within `columns` columns of weights.
struct HiddenSizes {
  Dim query, value;
};
HiddenSizes hidden_sizes(const AttributeReader& reader, const Dim& columns) {
  const std::int64_t heads = reader.integer("num_heads");
  const bool may_differ = reader.op().name == "com.microsoft::Attention";
  const std::vector<std::int64_t> sizes =
      may_differ ? reader.integers_or_empty("qkv_hidden_sizes") : std::vector<std::int64_t>{};
  HiddenSizes result;
  if (!sizes.empty()) {
    const std::string shown = to_string(Shape(sizes.begin(), sizes.end()));
    const bool sound = sizes.size() == 3 && sizes[0] == sizes[1] && sizes[0] > 0 && sizes[2] > 0;
    require(sound, ErrorKind::invalid_model,
            "qkv_hidden_sizes is {}, expected three positive sizes, the first two equal", shown);
    result = {sizes[0], sizes[2]};
    const Dim wanted = result.query + result.query + result.value;
    require(columns.may_equal(wanted), ErrorKind::invalid_model,
            "qkv_hidden_sizes is {}, but the weights have {} columns", shown, to_string(columns));
  } else if (columns.is_known()) {
    require(columns.value() % 3 == 0, ErrorKind::invalid_model, "the weights have {} columns, expected a multiple of 3",
            columns.value());
    result = {columns.value() / 3, columns.value() / 3};
  }
  for (const Dim& size : {result.query, result.value}) {
    require(!size.is_known() || size.value() % heads == 0, ErrorKind::invalid_model,
            "a hidden size of {} does not divide into {} heads", size.value(), heads);
  }
  return result;
}

// 'past' and 'present': keys, then values, [2, batch, heads, length, size].
void infer_states(InferContext& context, const MicrosoftAttentionPlaces& places, const Dims& x,
                  const HiddenSizes& hidden, bool shares_buffer) {
  const std::int64_t heads = context.integer("num_heads");
  const Dim size = head_size_of(context, hidden.query, heads, "weights");
  Dim past = 0;
  if (context.has_input(places.past)) {
    past = dims_of_rank(context, places.past, 5)[3];
    check_operand(context, places.past, {2, x[0], heads, past, size});
  }
  const bool uses_states = context.has_input(places.past) || context.wants_output(1);
  context.check(!uses_states || hidden.query.may_equal(hidden.value),
                "past and present need Q, K and V of one size, not {} and {}", to_string(hidden.query),
                to_string(hidden.value));
  context.set_output(1, context.dtype(context.op().name == "com.microsoft::QAttention" ? 2 : 0),
                     {2, x[0], heads, shares_buffer ? past : past + x[1], size});
}

void infer_microsoft_attention(InferContext& context) {
  const Dims x = dims_of_rank(context, 0, 3), weights = dims_of_rank(context, 1, 2);
  check_operand(context, 1, {x[2], weights[1]});
  check_operand(context, 2, {weights[1]});
  head_count(context, "num_heads");
  const bool shares = context.integer("past_present_share_buffer") != 0;
  context.check(!shares || (context.has_input(kFloatPlaces.past) && context.has_input(kPastLength)),
                "past_present_share_buffer needs inputs 'past' and 'past_sequence_length'");
  const HiddenSizes hidden = hidden_sizes(context, weights[1]);
  infer_states(context, kFloatPlaces, x, hidden, shares);
  context.set_output(0, context.dtype(0), {x[0], x[1], hidden.value});
}

void infer_microsoft_attention_quantised(InferContext& context) {
  const Dims x = dims_of_rank(context, 0, 3), weights = dims_of_rank(context, 1, 2);
  check_operand(context, 1, {x[2], weights[1]});
  check_operand(context, 2, {weights[1]});
  head_count(context, "num_heads");
  context.check(context.integer("past_present_share_buffer") == 0,
                "past_present_share_buffer has no length of the past");
  const HiddenSizes hidden = hidden_sizes(context, weights[1]);
  infer_states(context, kQuantisedPlaces, x, hidden, false);
  context.set_output(0, context.dtype(2), {x[0], x[1], hidden.value});
}

// Rotates pairs of elements of each head by position * 10000^(-2 i / rotated), as GPT-NeoX does (arXiv:2204.06745).
ValueId rotated(GraphBuilder& builder, const AttributeReader& reader, ValueId packed, std::int64_t past) {
  const Shape shape = *builder.type(packed).shape();
  const std::int64_t heads = reader.integer("num_heads"), asked = reader.integer("rotary_embedding_dim");
  const std::int64_t span = asked > 0 ? asked : shape[2] / heads, half = span / 2;
  const auto real = [&](ValueId value) { return builder.cast(value, DType::f64); };
  const ValueId rate = builder.scalar(-2 * std::log(10000.0) / static_cast<double>(span), DType::f64);
  const ValueId frequencies = builder.add("Exp", {builder.add("Mul", {real(positions(builder, half)), rate})});
  const ValueId places = builder.add("Add", {positions(builder, shape[1]), builder.integers({past})});
  const ValueId angles = builder.add("Mul", {real(reshaped(builder, places, {shape[1], 1})), frequencies});
  const auto table = [&](const char* function) {
    const ValueId values = builder.cast(builder.add(function, {angles}), builder.dtype(packed));
    return builder.add("Expand", {values, builder.integers({shape[0], shape[1], half})});
  };
  const ValueId cosines = table("Cos"), sines = table("Sin");
  return builder.add("RotaryEmbedding", {packed, cosines, sines},
                     {{"num_heads", heads}, {"rotary_embedding_dim", 2 * half}});
}

ValueId state(GraphBuilder& builder, ValueId states, std::int64_t index) {
  return builder.add("Gather", {states, builder.scalar(static_cast<double>(index), DType::i64)});
}

ValueId joined_states(GraphBuilder& builder, ValueId key, ValueId value) {
  const auto above = [&](ValueId one) { return builder.add("Unsqueeze", {one, builder.integers({0})}); };
  return builder.add("Concat", {above(key), above(value)}, {{"axis", std::int64_t{0}}});
}

// The rest of the decomposition, from the projections [batch, length, columns] on.
std::vector<ValueId> attend(GraphBuilder& builder, const AttributeReader& reader, ValueId projected,
                            std::span<const ValueId> inputs, const std::vector<Shape>& shapes,
                            const MicrosoftAttentionPlaces& places, const HiddenSizes& hidden) {
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : ValueId{}; };
  const bool quantised = &places == &kQuantisedPlaces;
  const Shape& x = shapes[0];
  const DType type = builder.dtype(projected);
  const ValueId past = input(places.past), held = quantised ? ValueId{} : input(kPastLength);
  const bool shares = reader.integer("past_present_share_buffer") != 0;
  const std::int64_t past_length = past.valid() && !shares ? shapes[places.past][3] : 0;
  std::vector<ValueId> parts =
      split(builder, projected, 2, {hidden.query.value(), hidden.query.value(), hidden.value.value()});
  if (reader.integer("do_rotary") != 0) {
    require(!shares, ErrorKind::unsupported, "do_rotary with past_present_share_buffer");
    for (std::size_t i = 0; i < 2; ++i) parts[i] = rotated(builder, reader, parts[i], past_length);
  }
  AttentionCall call{.query = parts[0], .key = parts[1], .value = parts[2]};
  call.query_heads = call.kv_heads = reader.integer("num_heads");
  call.scale = reader.real("scale");
  call.causal = reader.integer("unidirectional") != 0;
  call.wants_present = reader.node().outputs.size() > 1 && reader.node().outputs[1].valid();
  const ValueId mask = input(places.mask), bias = quantised ? ValueId{} : input(kAttentionBias);
  if (mask.valid()) {
    // The number of positions in a shared buffer is known at run time only; the mask's shape gives it.
    const Shape& given = shapes[places.mask];
    const std::int64_t total = shares && given.size() > 1 ? given.back() : past_length + x[1];
    require(!shares || given.size() == 2 || given.size() == 3, ErrorKind::unsupported,
            "past_present_share_buffer with a mask of shape {}", to_string(given));
    call.mask = additive_mask(builder, mask, {x[0], x[1], past_length, total}, reader.real("mask_filter_value"), type);
  }
  call.mask = add_optional(builder, call.mask, bias);
  AttentionResult result;
  if (shares) {
    for (ValueId* operand : {&call.query, &call.key, &call.value})
      *operand = heads_first(builder, *operand, call.query_heads);
    result = add_shared_cache_attention(builder, call, {state(builder, past, 0), state(builder, past, 1), held});
    result.output = heads_last(builder, result.output);
  } else {
    if (past.valid()) {
      call.past_key = state(builder, past, 0);
      call.past_value = state(builder, past, 1);
    }
    result = add_attention(builder, call);
  }
  return {result.output,
          call.wants_present ? joined_states(builder, result.present_key, result.present_value) : ValueId{}};
}

std::optional<std::vector<ValueId>> decompose_microsoft_attention(GraphBuilder& builder, const AttributeReader& reader,
                                                                  std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  ValueId projected = builder.add("MatMul", {inputs[0], inputs[1]});
  if (inputs.size() > 2 && inputs[2].valid()) projected = builder.add("Add", {projected, inputs[2]});
  return attend(builder, reader, projected, inputs, *shapes, kFloatPlaces, hidden_sizes(reader, (*shapes)[1][1]));
}

std::optional<std::vector<ValueId>> decompose_microsoft_attention_quantised(GraphBuilder& builder,
                                                                            const AttributeReader& reader,
                                                                            std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : ValueId{}; };
  std::vector<ValueId> factors{inputs[0], inputs[1], input(6), input(7)};
  while (!factors.back().valid()) factors.pop_back();
  const ValueId scale = builder.add("Mul", {inputs[3], inputs[4]});
  const ValueId product = builder.cast(builder.add("MatMulInteger", factors), builder.dtype(inputs[2]));
  const ValueId projected = builder.add("Add", {builder.add("Mul", {product, scale}), inputs[2]});
  return attend(builder, reader, projected, inputs, *shapes, kQuantisedPlaces, hidden_sizes(reader, (*shapes)[1][1]));
}

std::vector<AttributeSpec> microsoft_attention_attributes(bool quantised) {
  std::vector<AttributeSpec> specs{
      {"num_heads", AttributeKind::integer, std::nullopt, true},
      {"do_rotary", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
      {"mask_filter_value", AttributeKind::real, ir::Attribute(-10000.0f)},
      {"past_present_share_buffer", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
      {"rotary_embedding_dim", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
      {"scale", AttributeKind::real, ir::Attribute(0.0f)},
      {"unidirectional", AttributeKind::integer, ir::Attribute(std::int64_t{0})}};
  if (!quantised) specs.push_back({"qkv_hidden_sizes", AttributeKind::integers});
  return specs;
}

}  // namespace

// [Q K V] = input weights + bias, attended to in num_heads heads. The scores get mask_filter_value where the mask
// excludes a key, and attention_bias [batch or 1, heads or 1, length, total length] as addends. Scale 0 is 1 /
// sqrt(head size).
const OpDef microsoft_attention{
    .name = "com.microsoft::Attention",
    .since = 1,
    .product = several_products,
    .inputs = {{"input", types::floats, "T"},
               {"weights", types::floats, "T"},
               {"bias", types::floats, "T", optional},
               {"mask_index", types::i32, "M", optional},
               {"past", types::floats, "T", optional},
               {"attention_bias", types::floats, "T", optional},
               {"past_sequence_length", types::i32, "M", optional}},
    .outputs = {{"output", types::floats, "T"}, {"present", types::floats, "T", optional}},
    .attributes = microsoft_attention_attributes(false),
    .infer = infer_microsoft_attention,
    .decompose = decompose_microsoft_attention,
};

// Attention with a quantised projection: ((input - its zero point) (weight - its zero point)) input_scale weight_scale
// + bias. Scale and zero point of the weight have one element, or one per column.
const OpDef q_attention{
    .name = "com.microsoft::QAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"input", types::bytes, "T1"},
               {"weight", types::bytes, "T2"},
               {"bias", types::floats, "T3"},
               {"input_scale", types::floats, "T3"},
               {"weight_scale", types::floats, "T3"},
               {"mask_index", types::i32, "T4", optional},
               {"input_zero_point", types::bytes, "T1", optional},
               {"weight_zero_point", types::bytes, "T2", optional},
               {"past", types::floats, "T3", optional}},
    .outputs = {{"output", types::floats, "T3"}, {"present", types::floats, "T3", optional}},
    .attributes = microsoft_attention_attributes(true),
    .infer = infer_microsoft_attention_quantised,
    .decompose = decompose_microsoft_attention_quantised,
};

}  // namespace tessera::ops
