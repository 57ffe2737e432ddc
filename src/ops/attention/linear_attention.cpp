#include "ops/attention/linear_attention.h"

#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;

Dims rank_3(const InferContext& context, std::size_t input) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return Dims(3);
  const Dims& dims = *context.dims(input);
  context.check(dims.size() == 3, "'{}' has shape {}, expected [batch, time, heads * size]",
                context.op().inputs[input].name, to_string(dims));
  return dims;
}

Dim per_head(const InferContext& context, const Dim& hidden, std::int64_t heads, std::string_view name) {
  if (!hidden.is_known()) return {};
  context.check(hidden.value() % heads == 0, "the hidden size {} of '{}' does not divide into {} heads", hidden.value(),
                name, heads);
  return hidden.value() / heads;
}

void check_rule(const InferContext& context) {
  const std::string& rule = context.text("update_rule");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  context.check(gated || delta || rule == "linear", "update_rule is '{}', expected linear, gated, delta or gated_delta",
                rule);
  context.check(context.has_input(4) == gated, "update_rule '{}' {} the input 'decay'", rule,
                gated ? "needs" : "forbids");
  context.check(context.has_input(5) == delta, "update_rule '{}' {} the input 'beta'", rule,
                delta ? "needs" : "forbids");
}

struct Results {
  Dims output, state;
};

Results checked_results(const InferContext& context) {
  const std::int64_t query_heads = context.integer("q_num_heads"), kv_heads = context.integer("kv_num_heads");
  context.check(query_heads >= 1 && kv_heads >= 1 && query_heads % kv_heads == 0,
                "{} query heads are not a multiple of {} key heads", query_heads, kv_heads);
  check_rule(context);
  const Dims q = rank_3(context, 0), k = rank_3(context, 1), v = rank_3(context, 2);
  const Dims decay = rank_3(context, 4), beta = rank_3(context, 5);
  for (const Dims* dims : {&k, &v, &decay, &beta}) {
    context.check((*dims)[0].may_equal(q[0]) && (*dims)[1].may_equal(q[1]), "inputs {} and {} differ in batch or time",
                  to_string(q), to_string(*dims));
  }
  const Dim size = per_head(context, q[2], query_heads, "query"), key_size = per_head(context, k[2], kv_heads, "key");
  const Dim value_size = per_head(context, v[2], kv_heads, "value");
  context.check(size.may_equal(key_size), "heads of query have size {}, those of key {}", to_string(size),
                to_string(key_size));
  if (decay[2].is_known() && k[2].is_known()) {
    context.check(decay[2].value() == kv_heads || decay[2].value() == k[2].value(),
                  "'decay' has {} values a step, expected {} or {}", decay[2].value(), kv_heads, k[2].value());
  }
  context.check(!beta[2].is_known() || beta[2].value() == kv_heads || beta[2].value() == 1,
                "'beta' has {} values a step, expected {} or 1", beta[2].value(), kv_heads);
  const Dims state{q[0], kv_heads, key_size.is_known() ? key_size : size, value_size};
  if (context.has_input(3) && context.dims(3) != nullptr) {
    const Dims& past = *context.dims(3);
    bool fits = past.size() == 4;
    for (std::size_t i = 0; fits && i < 4; ++i) fits = past[i].may_equal(state[i]);
    context.check(fits, "'past_state' has shape {}, expected {}", to_string(past), to_string(state));
  }
  return {{q[0], q[1], value_size * Dim(query_heads)}, state};
}

void infer_linear_attention(InferContext& context) {
  Results results = checked_results(context);
  context.set_output(0, context.dtype(0), std::move(results.output));
  context.set_output(1, context.has_input(3) ? context.dtype(3) : context.dtype(0), std::move(results.state));
}

// Decay, correction and update of the state, and reading it for every query head.
double linear_attention_operations(const NodeView& view) {
  const Shape& q = view.input(0).shape;
  const double steps = static_cast<double>(q[0]) * static_cast<double>(q[1]);
  const double state = static_cast<double>(view.input(1).shape[2]) * static_cast<double>(view.input(2).shape[2]) /
                       static_cast<double>(view.integer("kv_num_heads"));
  const double heads = static_cast<double>(view.integer("q_num_heads") / view.integer("kv_num_heads"));
  return steps * state * (5 + 2 * heads);
}

AttributeSpec heads(std::string_view name) {
  return {name, AttributeKind::integer, std::nullopt, true};
}

std::vector<AttributeSpec> linear_attention_attributes() {
  return {{"chunk_size", AttributeKind::integer, ir::Attribute(std::int64_t{64})},
          heads("kv_num_heads"),
          heads("q_num_heads"),
          {"scale", AttributeKind::real, ir::Attribute(0.0f)},
          {"update_rule", AttributeKind::text, ir::Attribute(std::string("gated_delta"))}};
}

void gradient_of_linear_attention(GradientContext& c) {
  std::vector<ir::ValueId> operands(c.node().inputs.begin(),
                                    c.node().inputs.begin() + static_cast<std::ptrdiff_t>(c.input_count()));
  operands.resize(6);
  operands.push_back(c.gradient().id());
  if (c.has_gradient(1)) operands.push_back(c.gradient(1).id());
  std::size_t outputs = 3;
  for (std::size_t i = 3; i < 6; ++i) {
    if (c.wants(i)) outputs = i + 1;
  }
  const std::vector<ir::ValueId> gradients =
      c.builder().add_multi("tessera::LinearAttentionGradient", operands, outputs, c.node().attributes);
  for (std::size_t i = 0; i < outputs; ++i) {
    if (c.wants(i)) c.set(i, {c.builder(), gradients[i]});
  }
}

void infer_linear_attention_gradient(InferContext& context) {
  const Results results = checked_results(context);
  check_operand(context, 6, results.output);
  check_operand(context, 7, results.state);
  for (std::size_t i = 0; i < 6; ++i) {
    if (context.has_input(i)) context.set_output(i, context.input(i));
    else context.set_output(i, context.dtype(0), Dims{0});
  }
}

}  // namespace

// For every step, with S [d_k, d_v] of each key head (decay g only in gated rules, beta only in delta rules):
// S = exp(g) S; v' = v, or beta (v - S^T k); S = S + k v'^T; output = scale S^T q. Scale 0 means 1 / sqrt(d_k).
const OpDef linear_attention{
    .name = "LinearAttention",
    .since = 27,
    .product = several_products,
    .inputs = {{"query", types::floats_to_f32, "T"},
               {"key", types::floats_to_f32, "T"},
               {"value", types::floats_to_f32, "T"},
               {"past_state", types::floats_to_f32, "S", optional},
               {"decay", types::floats_to_f32, "T", optional},
               {"beta", types::floats_to_f32, "T", optional}},
    .outputs = {{"output", types::floats_to_f32, "T"}, {"present_state", types::floats_to_f32, "S"}},
    .attributes = linear_attention_attributes(),
    .infer = infer_linear_attention,
    .operations = linear_attention_operations,
    .gradient = gradient_of_linear_attention,
};

// Computes the gradients of all operands from those of the output and of the last state, step by step in reverse.
// States are recomputed, `chunk_size` steps at a time. The gradient of an absent operand is empty.
const OpDef linear_attention_gradient{
    .name = "tessera::LinearAttentionGradient",
    .since = 1,
    .inputs = {{"query", types::floats_to_f32, "T"},
               {"key", types::floats_to_f32, "T"},
               {"value", types::floats_to_f32, "T"},
               {"past_state", types::floats_to_f32, "S", optional},
               {"decay", types::floats_to_f32, "T", optional},
               {"beta", types::floats_to_f32, "T", optional},
               {"dY", types::floats_to_f32, "T"},
               {"dState", types::floats_to_f32, "S", optional}},
    .outputs = {{"dquery", types::floats_to_f32, "T"},
                {"dkey", types::floats_to_f32, "T"},
                {"dvalue", types::floats_to_f32, "T"},
                {"dpast_state", types::floats_to_f32, "S", optional},
                {"ddecay", types::floats_to_f32, "T", optional},
                {"dbeta", types::floats_to_f32, "T", optional}},
    .attributes = linear_attention_attributes(),
    .infer = infer_linear_attention_gradient,
    .operations = [](const NodeView& view) { return 4 * linear_attention_operations(view); },
};

}  // namespace tessera::ops
