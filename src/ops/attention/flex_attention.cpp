#include "ops/attention/flex_attention.h"

#include <cmath>

#include "base/error.h"
#include "ir/inline.h"
#include "ops/core/builder.h"
#include "ops/core/product.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

// The type in which softmax and the subgraphs compute.
DType compute_type(const AttributeReader& reader, DType input) {
  if (!reader.has_attribute("softmax_precision")) return input == DType::f64 ? DType::f64 : DType::f32;
  const std::int64_t asked = reader.integer("softmax_precision");
  const bool known = asked > 0 && asked < kDTypeCount && types::floats.contains(static_cast<DType>(asked));
  require(known, ErrorKind::invalid_model, "softmax_precision is {}, expected the number of a float type", asked);
  return static_cast<DType>(asked);
}

void infer_flex_attention(InferContext& context) {
  const auto rank_4 = [&](std::size_t input) {
    const Dims* dims = context.dims(input);
    context.check(dims == nullptr || dims->size() == 4, "'{}' has shape {}, expected rank 4",
                  context.op().inputs[input].name, dims != nullptr ? to_string(*dims) : "");
    return dims != nullptr ? *dims : Dims(4);
  };
  const Dims q = rank_4(0), k = rank_4(1), v = rank_4(2);
  context.check(q[0].may_equal(k[0]) && q[0].may_equal(v[0]) && q[3].may_equal(k[3]) && k[1].may_equal(v[1]) &&
                    k[2].may_equal(v[2]),
                "shapes {}, {} and {} of Q, K and V do not fit", to_string(q), to_string(k), to_string(v));
  if (q[1].is_known() && k[1].is_known()) {
    context.check(k[1].value() > 0 && q[1].value() % k[1].value() == 0,
                  "{} query heads are not a multiple of {} key heads", q[1].value(), k[1].value());
  }
  const ir::ValueType scores =
      ir::ValueType::tensor(compute_type(context, context.dtype(0)), Dims{q[0], q[1], q[2], k[2]});
  for (const std::string_view name : {"score_mod", "prob_mod"}) {
    if (!context.has_attribute(name)) continue;
    const std::vector<ir::ValueType> results = context.infer_subgraph(name, {scores});
    context.check(results.size() == 1 && results[0].is_tensor() && results[0].dtype == scores.dtype,
                  "its subgraph '{}' does not return one {}", name, to_string(scores));
  }
  context.set_output(0, context.dtype(0), {q[0], q[1], q[2], v[3]});
}

// Repeats every head `times` times: [B, H, S, E] -> [B, H * times, S, E].
ValueId repeat_heads(GraphBuilder& builder, ValueId value, std::int64_t times) {
  const Dims dims = *builder.dims(value);
  const ValueId apart = builder.add("Unsqueeze", {value, builder.integers({2})});
  const ValueId repeated = builder.add("Expand", {apart, builder.integers({1, 1, times, 1, 1})});
  return builder.add("Reshape", {repeated, builder.integers({0, dims[1].value() * times, -1, dims[3].value()})});
}

// The scores after the subgraph, or unchanged without one.
ValueId modify(GraphBuilder& builder, const AttributeReader& reader, std::string_view name, ValueId scores,
               std::span<const ValueId> captures) {
  if (!reader.has_attribute(name)) return scores;
  std::vector<ValueId> arguments{scores};
  arguments.insert(arguments.end(), captures.begin(), captures.end());
  ir::Graph& graph = builder.graph();
  const ValueId result = ir::append_inlined(graph, reader.graph(name), arguments)[0];
  graph.value(result).type = builder.type(scores);
  return result;
}

std::optional<std::vector<ValueId>> decompose_flex_attention(GraphBuilder& builder, const AttributeReader& reader,
                                                             std::span<const ValueId> inputs) {
  const Dims *q = builder.dims(inputs[0]), *k = builder.dims(inputs[1]), *v = builder.dims(inputs[2]);
  if (q == nullptr || k == nullptr || v == nullptr) return std::nullopt;
  const bool known = (*q)[1].is_known() && (*k)[1].is_known() && (*q)[3].is_known() && (*v)[3].is_known();
  if (!known) return std::nullopt;
  const std::int64_t group = (*q)[1].value() / (*k)[1].value();
  const double size = static_cast<double>((*q)[3].value());
  const double scale = reader.has_attribute("scale") ? reader.real("scale") : 1 / std::sqrt(size);
  const DType type = builder.dtype(inputs[0]), compute = compute_type(reader, type);
  const std::span<const ValueId> captures = inputs.subspan(3);
  const ValueId key = group > 1 ? repeat_heads(builder, inputs[1], group) : inputs[1];
  const ValueId value = group > 1 ? repeat_heads(builder, inputs[2], group) : inputs[2];
  const ValueId transposed = builder.add("Transpose", {key}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
  // Scaled in the wide type: splitting the scale between both operands would need the root of a negative scale.
  const ValueId products = builder.add("MatMul", {builder.cast(inputs[0], compute), builder.cast(transposed, compute)});
  const ValueId scores = builder.add("Mul", {products, builder.scalar(scale, compute)});
  const ValueId modified = modify(builder, reader, "score_mod", scores, captures);
  const ValueId weights = builder.add("Softmax", {modified}, {{"axis", std::int64_t{-1}}});
  const ValueId probabilities = modify(builder, reader, "prob_mod", weights, captures);
  const ValueId output = builder.add("MatMul", {probabilities, builder.cast(value, compute)});
  return std::vector<ValueId>{builder.cast(output, type)};
}

}  // namespace

// Y = prob_mod(softmax(score_mod(scale * Q K^T))) V; a head of K and V is shared by a group of query heads.
const OpDef flex_attention{
    .name = "ai.onnx.preview::FlexAttention",
    .since = 1,
    .product = several_products,
    .inputs = {{"Q", types::floats, "T1"}, {"K", types::floats, "T1"}, {"V", types::floats, "T1"}},
    .outputs = {{"Y", types::floats, "T1"}},
    .attributes = {{"prob_mod", AttributeKind::graph},
                   {"score_mod", AttributeKind::graph},
                   {"softmax_precision", AttributeKind::integer},
                   {"scale", AttributeKind::real}},
    .infer = infer_flex_attention,
    .decompose = decompose_flex_attention,
};

}  // namespace tessera::ops
