#include "ops/attention/attention.h"

#include <cmath>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/attention/attention_gradient.h"
#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/values/random_streams.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;

enum Input : std::size_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kPastKey,
  kPastValue,
  kNonpad,
  kReplacement = kAttentionReplacement,
  kSecondMask = kAttentionSecondMask
};

// The dimensions [batch, heads, length, head size] of Q, K or V.
Dims unpacked(const InferContext& context, std::size_t input, std::size_t rank) {
  const std::string_view name = context.op().inputs[input].name;
  const Dims dims = dims_of_rank(context, input, rank);
  if (rank == 4) return dims;
  const std::int64_t heads = context.integer(input == kQuery ? "q_num_heads" : "kv_num_heads");
  return {dims[0], heads, dims[1], head_size_of(context, dims[2], heads, name)};
}

void check_attention_attributes(const InferContext& context, bool packed) {
  for (const std::string_view name : {"q_num_heads", "kv_num_heads"}) {
    context.check(!packed || context.has_attribute(name), "attribute '{}' is missing; inputs of rank 3 need it", name);
    if (!context.has_attribute(name)) continue;
    context.check(context.integer(name) >= 1, "{} is {}, expected at least 1", name, context.integer(name));
  }
  const std::int64_t mode = context.integer("qk_matmul_output_mode");
  context.check(mode >= 0 && mode <= 3, "qk_matmul_output_mode is {}, expected 0 to 3", mode);
  const std::int64_t nan_rows = context.integer("nan_rows");
  context.check(nan_rows >= 0 && nan_rows <= 2, "nan_rows is {}, expected 0 to 2", nan_rows);
  context.check(context.has_input(kPastKey) == context.has_input(kPastValue),
                "past_key and past_value must be given together");
  context.check(!context.has_input(kNonpad) || !context.has_input(kPastKey),
                "nonpad_kv_seqlen cannot be used together with past_key");
}

// Checks that the mask broadcasts to [batch, heads, query length, total length]; attn_mask may be shorter than the last
// dimension.
void check_mask(const InferContext& context, std::size_t input, const Dims& scores) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  const Dims& mask = *context.dims(input);
  bool fits = !mask.empty() && mask.size() <= 4;
  for (std::size_t i = 0; fits && i < mask.size(); ++i) {
    const Dim &have = mask[mask.size() - 1 - i], &want = scores[3 - i];
    if (!have.is_known() || !want.is_known()) continue;
    if (i > 0) fits = have.value() == 1 || have.value() == want.value();
    else fits = input == kMask ? have.value() <= want.value() : have.value() == want.value();
  }
  context.check(fits, "'{}' has shape {}, which does not broadcast to {}", context.op().inputs[input].name,
                text_of(mask), text_of(scores));
}

// Sets the type of the scores, or of the statistics in their place.
void set_scores(InferContext& context, ir::Dims dims) {
  const DType type = context.dtype(kQuery);
  if (!gives_statistics(context.op())) return context.set_output(3, type, std::move(dims));
  dims[3] = 2;
  context.set_output(kAttentionStatistics, type == DType::f64 ? type : DType::f32, std::move(dims));
}

void infer_attention(InferContext& context) {
  std::optional<std::size_t> known;
  for (const std::size_t input : {kQuery, kKey, kValue}) {
    if (!known && context.dims(input) != nullptr) known = context.dims(input)->size();
  }
  if (!known) {
    context.set_output_unknown_rank(0, context.dtype(kQuery));
    context.set_output(1, context.dtype(kKey), Dims(4));
    context.set_output(2, context.dtype(kValue), Dims(4));
    return set_scores(context, Dims(4));
  }
  const std::size_t rank = *known;
  context.check(rank == 3 || rank == 4, "Q, K and V have rank {}, expected 3 or 4", rank);
  check_attention_attributes(context, rank == 3);
  const Dims q = unpacked(context, kQuery, rank), k = unpacked(context, kKey, rank),
             v = unpacked(context, kValue, rank);
  context.check(q[0].may_equal(k[0]) && q[0].may_equal(v[0]), "Q, K and V have batches {}, {} and {}", text_of(q[0]),
                text_of(k[0]), text_of(v[0]));
  context.check(q[3].may_equal(k[3]), "heads of Q have size {}, those of K {}", text_of(q[3]), text_of(k[3]));
  context.check(k[1].may_equal(v[1]) && k[2].may_equal(v[2]), "K has {} heads of length {}, V {} of length {}",
                text_of(k[1]), text_of(k[2]), text_of(v[1]), text_of(v[2]));
  if (q[1].is_known() && k[1].is_known()) {
    context.check(k[1].value() > 0 ? q[1].value() % k[1].value() == 0 : q[1].value() == 0,
                  "{} query heads are not a multiple of {} key heads", q[1].value(), k[1].value());
  }
  Dim past = 0;
  if (context.has_input(kPastKey)) {
    past =
        context.dims(kPastKey) != nullptr && context.dims(kPastKey)->size() == 4 ? (*context.dims(kPastKey))[2] : Dim();
  }
  check_operand(context, kPastKey, {q[0], k[1], past, k[3]});
  check_operand(context, kPastValue, {q[0], k[1], past, v[3]});
  check_operand(context, kNonpad, {q[0]});
  const Dim total = past + k[2];
  for (const std::size_t mask : {kMask, kReplacement, kSecondMask})
    check_mask(context, mask, {q[0], q[1], q[2], total});
  context.set_output(0, context.dtype(kQuery),
                     rank == 4 ? Dims{q[0], q[1], q[2], v[3]} : Dims{q[0], q[2], q[1] * v[3]});
  context.set_output(1, context.dtype(kKey), {q[0], k[1], total, k[3]});
  context.set_output(2, context.dtype(kValue), {q[0], k[1], total, v[3]});
  set_scores(context, {q[0], q[1], q[2], total});
}

void infer_with_dropout(InferContext& context) {
  const float ratio = context.real("dropout");
  context.check(ratio >= 0 && ratio < 1, "dropout is {}, expected a number in [0, 1)", ratio);
  context.set_output(kAttentionRandom, DType::i64, {2});
  infer_attention(context);
}

double attention_operations(const NodeView& view) {
  const AttentionSizes sizes =
      attention_sizes(view, view.input(kQuery).shape, view.input(kKey).shape, view.input(kValue).shape,
                      view.has_input(kPastKey) ? &view.input(kPastKey).shape : nullptr);
  const double scores = static_cast<double>(sizes.batch) * static_cast<double>(sizes.query_heads) *
                        static_cast<double>(sizes.query_length) * static_cast<double>(sizes.total_length());
  return scores * (2 * static_cast<double>(sizes.head_size + sizes.value_head_size) + 5);
}

// [batch, length, heads * size] → [batch, heads, length, size], where inputs are packed.
Term heads_first(GradientContext& c, Term value, std::string_view heads) {
  if (c.input(kQuery).rank() == 4) return value;
  return value.combine("Reshape", {value.integers({0, 0, c.integer(heads), -1})}).transpose({0, 2, 1, 3});
}

Term packed_like(Term value, Term input) {
  return input.rank() == 4 ? value : value.transpose({0, 2, 1, 3}).reshape_like(input);
}

// Output qk_matmul_output of the same node in another mode: 1 scores with softcap, 3 probabilities.
Term recomputed(GradientContext& c, std::int64_t mode) {
  ir::Attributes attributes = c.node().attributes;
  attributes.insert_or_assign("qk_matmul_output_mode", mode);
  return {c.builder(), c.builder().add_multi("Attention", c.node().inputs, 4, std::move(attributes))[3]};
}

// With P = softmax(S): dV = Pᵀ g, dP = g Vᵀ, dS = P (dP - Σ dP P), dQ = scale dS K, dK = scale dSᵀ Q.
void go_back(GradientContext& c) {
  require(!c.has_gradient(3), ErrorKind::unsupported, "its scores are used");
  if (set_attention_gradients(c)) return;
  require(!drops_weights(c.op()), ErrorKind::unsupported,
          "it drops weights, and has caches, a softcap or a mask that is trained");
  const Term query = heads_first(c, c.input(kQuery), "q_num_heads"), g = heads_first(c, c.gradient(), "q_num_heads");
  Term key = heads_first(c, c.input(kKey), "kv_num_heads"), value = heads_first(c, c.input(kValue), "kv_num_heads");
  const bool has_past = c.has_input(kPastKey);
  if (has_past) {
    const ir::Attributes along_length{{"axis", std::int64_t{2}}};
    key = c.input(kPastKey).combine("Concat", {key}, along_length);
    value = c.input(kPastValue).combine("Concat", {value}, along_length);
  }
  const ir::Dims q = query.dims(), k = key.dims();
  require(q[1].is_known() && k[1].is_known() && q[3].is_known(), ErrorKind::unsupported, "its heads are not known");
  // Groups the query heads that share one head of K and V: [batch, kv heads, group, …].
  const std::int64_t group = k[1].value() > 0 ? q[1].value() / k[1].value() : 1;
  const auto grouped = [&](Term term) {
    return term.combine("Reshape", {join({term.integers({0, k[1].value(), group}), term.size_of(2), term.size_of(3)})});
  };
  const auto turned = [](Term term) { return term.transpose({0, 1, 2, 4, 3}); };
  const Term p = grouped(recomputed(c, 3)), gg = grouped(g);
  const Term dp = gg.combine("MatMul", {turned(value.unsqueeze({2}))});
  Term ds = p * (dp - (dp * p).sum({-1}));
  if (c.has_input(kReplacement)) {
    const Term keeps = c.input(kReplacement).apply("IsNaN"), all = ds.reshape_like(recomputed(c, 0));
    c.set(kReplacement, keeps.choose(all.zeros(), all).cast(c.input(kReplacement).dtype()));
    ds = grouped(keeps.choose(all, 0));
  }
  for (const std::size_t mask : {kMask, kSecondMask}) {
    if (!c.wants(mask)) continue;
    require(c.input(mask).dims().back().surely_equals(k[2]), ErrorKind::unsupported,
            "its mask may be shorter than its keys");
    c.set(mask, ds.reshape_like(recomputed(c, 0)).cast(c.input(mask).dtype()));
  }
  if (const float cap = c.real("softcap"); cap > 0) {
    const Term capped = grouped(recomputed(c, 1)) / cap;
    ds = ds * (1 - capped * capped);
  }
  ds = ds * (c.has_attribute("scale") ? c.real("scale") : 1 / std::sqrt(static_cast<double>(q[3].value())));
  if (c.wants(kQuery))
    c.set(kQuery, packed_like(ds.combine("MatMul", {key.unsqueeze({2})}).reshape_like(query), c.input(kQuery)));

  const auto set_cache = [&](Term total, std::size_t present, std::size_t past, std::size_t input) {
    if (c.has_gradient(present)) total = total + c.gradient(present);
    if (!has_past) return c.set(input, packed_like(total, c.input(input)));
    const Term sizes = join({c.input(past).size_of(2), heads_first(c, c.input(input), "kv_num_heads").size_of(2)});
    const std::vector<ir::ValueId> parts =
        c.builder().add_multi("Split", {total.id(), sizes.id()}, 2, {{"axis", std::int64_t{2}}});
    c.set(past, {c.builder(), parts[0]});
    c.set(input, packed_like({c.builder(), parts[1]}, c.input(input)));
  };
  set_cache(turned(ds).combine("MatMul", {grouped(query)}).sum({2}, false), 1, kPastKey, kKey);
  set_cache(turned(p).combine("MatMul", {gg}).sum({2}, false), 2, kPastValue, kValue);
}

constexpr TypeSet kMaskTypes = types::numbers | types::boolean;

const std::vector<Parameter> kAttentionInputs{{"Q", types::floats, "T1"},
                                              {"K", types::floats, "T1"},
                                              {"V", types::floats, "T2"},
                                              {"attn_mask", kMaskTypes, "U", optional},
                                              {"past_key", types::floats, "T1", optional},
                                              {"past_value", types::floats, "T2", optional},
                                              {"nonpad_kv_seqlen", types::i64, "", optional},
                                              {"replacement", types::floats, "", optional},
                                              {"second_mask", types::floats, "", optional}};
const std::vector<AttributeSpec> kAttentionAttributes{
    {"is_causal", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
    {"kv_num_heads", AttributeKind::integer},
    {"nan_rows", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
    {"q_num_heads", AttributeKind::integer},
    {"qk_matmul_output_mode", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
    {"scale", AttributeKind::real},
    {"softcap", AttributeKind::real, ir::Attribute(0.0f)},
    {"softmax_precision", AttributeKind::integer}};

std::vector<AttributeSpec> attributes_with_dropout() {
  std::vector<AttributeSpec> specs = kAttentionAttributes;
  specs.push_back({"dropout", AttributeKind::real, std::nullopt, true});
  specs.push_back({"seed", AttributeKind::integer});
  specs.push_back(stream_attribute());
  return specs;
}

}  // namespace

NanRows nan_rows_of(const AttributeReader& reader) {
  return static_cast<NanRows>(reader.integer("nan_rows"));
}

AttentionSizes attention_sizes(const AttributeReader& reader, const Shape& query, const Shape& key, const Shape& value,
                               const Shape* past_key) {
  AttentionSizes sizes;
  sizes.packed = query.size() == 3;
  sizes.batch = query[0];
  sizes.query_heads = sizes.packed ? reader.integer("q_num_heads") : query[1];
  sizes.kv_heads = sizes.packed ? reader.integer("kv_num_heads") : key[1];
  sizes.query_length = query[sizes.packed ? 1 : 2];
  sizes.new_length = key[sizes.packed ? 1 : 2];
  sizes.past_length = past_key != nullptr ? (*past_key)[2] : 0;
  sizes.head_size = sizes.packed ? query[2] / sizes.query_heads : query[3];
  sizes.value_head_size = sizes.packed ? value[2] / sizes.kv_heads : value[3];
  sizes.scale = reader.has_attribute("scale") ? reader.real("scale")
                                              : static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.head_size)));
  base::checked_add(sizes.past_length, sizes.new_length);
  return sizes;
}

// Y = softmax(softcap(scale * Q K^T) + mask) V for every head; softcap(s) = softcap * tanh(s / softcap) when it is not
// 0. A key counts unless the mask, causality (key after query, both counted from the end of the past) or
// nonpad_kv_seqlen excludes it; a query for which no key counts gets zeros (nan_rows 0). `replacement`, `second_mask`
// and `nan_rows` extend ONNX's operator, for masks that passes fuse (ops/attention/attention.h).
const OpDef attention{
    .name = "Attention",
    .since = 24,
    .product = several_products,
    .inputs = kAttentionInputs,
    .outputs = {{"Y", types::floats, "T1"},
                {"present_key", types::floats, "T1", optional},
                {"present_value", types::floats, "T2", optional},
                {"qk_matmul_output", types::floats, "T1", optional}},
    .attributes = kAttentionAttributes,
    .infer = infer_attention,
    .operations = attention_operations,
    .gradient = go_back,
};

// Attention that returns, in place of the scores, the statistics from which its gradient recomputes the weights:
// `statistics` [batch, heads, query length, 2], f64 where Q is, else f32.
const OpDef attention_with_statistics{
    .name = "tessera::AttentionWithStatistics",
    .since = 1,
    .product = several_products,
    .inputs = kAttentionInputs,
    .outputs = {{"Y", types::floats, "T1"},
                {"present_key", types::floats, "T1", optional},
                {"present_value", types::floats, "T2", optional},
                {"statistics", {DType::f32, DType::f64}, "", optional}},
    .attributes = kAttentionAttributes,
    .infer = infer_attention,
    .operations = attention_operations,
    .gradient = go_back,
};

// AttentionWithStatistics with Dropout on the weights before they are multiplied with the values: each is 0 with
// probability `dropout`, and divided by 1 − dropout otherwise. The statistics are those of all weights.
const OpDef attention_with_dropout{
    .name = "tessera::AttentionWithDropout",
    .since = 1,
    .product = several_products,
    .inputs = kAttentionInputs,
    .outputs = {{"Y", types::floats, "T1"},
                {"present_key", types::floats, "T1", optional},
                {"present_value", types::floats, "T2", optional},
                {"statistics", {DType::f32, DType::f64}, "", optional},
                {"random", types::i64, "", optional}},
    .attributes = attributes_with_dropout(),
    .infer = infer_with_dropout,
    .operations = attention_operations,
    .gradient = go_back,
    .deterministic = false,
};

}  // namespace tessera::ops
