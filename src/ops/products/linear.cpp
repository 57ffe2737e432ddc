#include "ops/products/linear.h"

#include <algorithm>

#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/products/rounded_product.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

void infer_linear(InferContext& context) {
  check_activation(context);
  const DType type = rounded_result_type(context);
  std::optional<ir::Dims> y = linear_dims(context, context.integer("axis"), context.integer("transB") != 0);
  if (!y) return context.set_output_unknown_rank(0, type);
  check_addend(context, 3, *y);
  context.set_output(0, type, std::move(*y));
}

std::optional<std::vector<ValueId>> decompose_linear(GraphBuilder& builder, const AttributeReader& reader,
                                                     std::span<const ValueId> inputs) {
  std::vector<ValueId> operands = rounded_operands(builder, reader, inputs);
  const std::int64_t axis = reader.integer("axis");
  const bool transposed = reader.integer("transB") != 0;
  if (axis != -1) {
    const ir::Dims *x = builder.dims(operands[0]), *w = builder.dims(operands[1]);
    if (x == nullptr || w == nullptr || !(*w)[transposed ? 1 : 0].is_known()) return std::nullopt;
    std::vector<std::int64_t> shape(
        static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x->size()) : axis), 0);  // as they are
    shape.push_back((*w)[transposed ? 1 : 0].value());
    operands[0] = builder.add("Reshape", {operands[0], builder.integers(std::move(shape))});
  }
  if (transposed) operands[1] = builder.add("Transpose", {operands[1]}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  ValueId y = builder.add("MatMul", {operands[0], operands[1]});
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (operands[i].valid()) y = builder.add("Add", {y, operands[i]});
  }
  return std::vector{rounded_result(builder, reader, add_activation(builder, reader, y))};
}

std::vector<AttributeSpec> linear_attributes() {
  std::vector<AttributeSpec> specs{{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
                                   {"transB", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                                   {"dense_weights", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}};
  for (AttributeSpec& spec : activation_attributes()) specs.push_back(std::move(spec));
  for (AttributeSpec& spec : rounding_attributes()) specs.push_back(std::move(spec));
  return specs;
}

}  // namespace

std::optional<ir::Dims> linear_dims(const InferContext& context, std::int64_t axis, bool transposed_weights) {
  const ir::Dims *x = context.dims(0), *w = context.dims(1);
  if (w != nullptr) context.check(w->size() == 2, "'W' has shape {}, expected [inputs, outputs]", text_of(*w));
  if (x == nullptr) return std::nullopt;
  context.check(x->size() >= 2, "'X' has shape {}, expected [..., inputs]", text_of(*x));
  const auto rank = static_cast<std::int64_t>(x->size()), first = axis < 0 ? axis + rank : axis;
  context.check(first >= 1 && first < rank, "axis is {}, but 'X' has shape {}", axis, text_of(*x));
  ir::Dims y(x->begin(), x->begin() + first);
  const ir::Dim inputs = ir::product({x->begin() + first, x->end()});
  if (w != nullptr)
    context.check(inputs.may_equal((*w)[transposed_weights ? 1 : 0]), "'X' has {} inputs, 'W' is for {}",
                  text_of(inputs), text_of((*w)[transposed_weights ? 1 : 0]));
  y.push_back(w != nullptr ? (*w)[transposed_weights ? 0 : 1] : ir::Dim());
  if (const ir::Dims* bias = context.has_input(2) ? context.dims(2) : nullptr) {
    context.check(bias->size() == 1 && (*bias)[0].may_equal(y.back()), "the bias has shape {}, expected [{}]",
                  text_of(*bias), text_of(y.back()));
  }
  return y;
}

// Every output is a sum over all inputs.
double linear_operations(const NodeView& view) {
  const std::int64_t outputs = view.output(0).shape.back();
  return outputs == 0 ? 0
                      : 2.0 * static_cast<double>(view.output(0).elements()) *
                            static_cast<double>(view.input(1).elements() / outputs);
}

bool may_be_sparse(const Tensor& weights) {
  constexpr std::int64_t kPlaces = 32, kRun = 32;
  const auto* data = weights.data<float>();
  const std::int64_t elements = weights.elements();
  std::int64_t seen = 0, zeros = 0;
  for (std::int64_t i = 0; i < kPlaces; ++i) {
    const std::int64_t begin = elements / kPlaces * i;
    for (std::int64_t k = begin; k < std::min(begin + kRun, elements); ++k, ++seen) zeros += data[k] == 0;
  }
  return 4 * zeros >= seen;
}

// Y = activation(X W + B + Z) with X [..., inputs], W [inputs, outputs] (transposed where transB says so), B [outputs],
// and Z of Y's shape. The axes of X from `axis` on together are the inputs. Rounded as ops/products/rounded_product.h
// says. The attribute dense_weights states that may_be_sparse() is false for W; it changes no result.
const OpDef linear{
    .name = "tessera::Linear",
    .product = linear_product,
    .inputs = {{"X", types::floats, "T1"},
               {"W", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"Z", types::floats, "T3", optional}},
    .outputs = {{"Y", types::floats, "T2"}},
    .attributes = linear_attributes(),
    .infer = infer_linear,
    .operations = linear_operations,
    .decompose = decompose_linear,
};

}  // namespace tessera::ops
