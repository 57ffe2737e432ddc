#include "ops/attention/attention_gradient.h"

#include "ops/attention/attention.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/core/wanted_output.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
namespace input = attention_gradient_input;

constexpr std::string_view kForward = "tessera::AttentionWithStatistics";

void check_like(InferContext& context, std::size_t i, std::size_t other) {
  const ir::Dims *own = context.dims(i), *want = context.dims(other);
  if (own == nullptr || want == nullptr) return;
  bool fits = own->size() == want->size();
  for (std::size_t k = 0; fits && k < own->size(); ++k) fits = (*own)[k].may_equal((*want)[k]);
  context.check(fits, "'{}' has shape {}, expected that of '{}', {}", context.op().inputs[i].name, text_of(*own),
                context.op().inputs[other].name, text_of(*want));
}

void infer_attention_gradient(InferContext& context) {
  for (const std::size_t i : {input::query, input::key, input::value}) context.set_output(i, context.input(i));
  check_like(context, input::output_gradient, input::output);
  const ir::Dims *q = context.dims(input::query), *statistics = context.dims(input::statistics);
  context.check(q == nullptr || q->size() == 4 ||
                    (q->size() == 3 && context.has_attribute("q_num_heads") && context.has_attribute("kv_num_heads")),
                "Q has shape {}, expected rank 4, or rank 3 with attributes q_num_heads and kv_num_heads", text_of(q));
  if (q == nullptr || statistics == nullptr) return;
  const bool packed = q->size() == 3;
  const ir::Dims want{(*q)[0], packed ? ir::Dim(context.integer("q_num_heads")) : (*q)[1], (*q)[packed ? 1 : 2], 2};
  bool fits = statistics->size() == 4;
  for (std::size_t k = 0; fits && k < 4; ++k) fits = (*statistics)[k].may_equal(want[k]);
  context.check(fits, "'statistics' has shape {}, expected {}", text_of(*statistics), text_of(want));
}

// Five products of the size of the scores; attention has two.
double attention_gradient_operations(const NodeView& view) {
  const AttentionSizes sizes = attention_sizes(view, view.input(input::query).shape, view.input(input::key).shape,
                                               view.input(input::value).shape, nullptr);
  const double scores = static_cast<double>(sizes.batch) * static_cast<double>(sizes.query_heads) *
                        static_cast<double>(sizes.query_length) * static_cast<double>(sizes.total_length());
  return scores * (2 * static_cast<double>(3 * sizes.head_size + 2 * sizes.value_head_size) + 8);
}

bool is_covered(GradientContext& c) {
  for (const std::size_t i : {4, 5, 6}) {
    if (c.has_input(i)) return false;
  }
  for (const std::size_t i : {1, 2}) {
    if (c.has_gradient(i)) return false;
  }
  if (c.has_output(3) && !gives_statistics(c.op())) return false;  // a node gives scores or statistics
  const DType type = c.input(0).dtype();
  if ((type != DType::f32 && type != DType::f64) || c.input(2).dtype() != type || !c.has_output(0)) return false;
  return c.real("softcap") == 0 && !c.wants(3) && !c.wants(kAttentionReplacement) && !c.wants(kAttentionSecondMask);
}

// Output `statistics` of the node that is differentiated; the node becomes an AttentionWithStatistics.
ir::ValueId keep_statistics(GradientContext& c) {
  ir::Graph& graph = c.builder().graph();
  if (!drops_weights(c.op())) graph.node(graph.value(c.output(0).id()).producer).op = kForward;
  return wanted_output(c, kAttentionStatistics).id();
}

}  // namespace

bool set_attention_gradients(GradientContext& c) {
  if (!is_covered(c)) return false;
  const ir::ValueId statistics = keep_statistics(c);
  ir::Attributes attributes;
  for (const char* name : {"is_causal", "kv_num_heads", "nan_rows", "q_num_heads", "scale", "dropout"}) {
    const auto given = c.node().attributes.find(name);
    if (given != c.node().attributes.end()) attributes.insert(*given);
  }
  const auto given = [&](std::size_t i) { return c.has_input(i) ? c.input(i).id() : ir::ValueId{}; };
  const ir::ValueId random = drops_weights(c.op()) ? wanted_output(c, kAttentionRandom).id() : ir::ValueId{};
  std::vector<ir::ValueId> operands{given(0),
                                    given(1),
                                    given(2),
                                    given(3),
                                    c.output(0).id(),
                                    statistics,
                                    c.gradient().id(),
                                    random,
                                    given(kAttentionReplacement),
                                    given(kAttentionSecondMask)};
  while (!operands.back().valid()) operands.pop_back();
  const std::vector<ir::ValueId> made =
      c.builder().add_multi("tessera::AttentionGradient", std::move(operands), 3, std::move(attributes));
  for (std::size_t i = 0; i < 3; ++i) c.set(i, {c.builder(), made[i]});
  return true;
}

// With S = scale Q Kᵀ + mask, P = e^(S - largest) / sum and D = Σ dY ∘ Y over a row: dV = Pᵀ dY, dP = dY Vᵀ, dS = P ∘
// (dP - D), or 0 where S was replaced, dQ = scale dS K, dK = scale dSᵀ Q. Gradients of query heads that share a head of
// K and V are summed. Where the forward node dropped weights, Z is 0 for these and 1 / (1 − dropout) for others: dV =
// (P ∘ Z)ᵀ dY and dP = (dY Vᵀ) ∘ Z.
const OpDef attention_gradient{
    .name = "tessera::AttentionGradient",
    .since = 1,
    .product = several_products,
    .inputs = {{"Q", types::floats, "T"},
               {"K", types::floats, "T"},
               {"V", types::floats, "T"},
               {"attn_mask", types::numbers | types::boolean, "U", optional},
               {"Y", types::floats, "T"},
               {"statistics", {DType::f32, DType::f64}, ""},
               {"dY", types::floats, "T"},
               {"random", types::i64, "", optional},
               {"replacement", types::floats, "", optional},
               {"second_mask", types::floats, "", optional}},
    .outputs = {{"dQ", types::floats, "T"}, {"dK", types::floats, "T"}, {"dV", types::floats, "T"}},
    .attributes = {{"is_causal", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"kv_num_heads", AttributeKind::integer},
                   {"nan_rows", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"q_num_heads", AttributeKind::integer},
                   {"scale", AttributeKind::real},
                   {"dropout", AttributeKind::real, ir::Attribute(0.0f)}},
    .infer = infer_attention_gradient,
    .operations = attention_gradient_operations,
};

}  // namespace tessera::ops
