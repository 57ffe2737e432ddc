#include "ops/linear.h"

#include "ops/fused_activation.h"
#include "ops/rounded_product.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

void infer(InferContext& context) {
  check_activation(context);
  const DType type = rounded_result_type(context);
  std::optional<ir::Dims> y = linear_dims(context);
  if (!y) return context.set_output_unknown_rank(0, type);
  check_addend(context, 3, *y);
  context.set_output(0, type, std::move(*y));
}

std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs) {
  const std::vector<ValueId> operands = rounded_operands(builder, reader, inputs);
  ValueId y = builder.add("MatMul", {operands[0], operands[1]});
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (operands[i].valid()) y = builder.add("Add", {y, operands[i]});
  }
  return std::vector{rounded_result(builder, reader, add_activation(builder, reader, y))};
}

std::vector<AttributeSpec> attributes() {
  std::vector<AttributeSpec> specs = activation_attributes();
  for (AttributeSpec& spec : rounding_attributes()) specs.push_back(std::move(spec));
  return specs;
}

}  // namespace

std::optional<ir::Dims> linear_dims(const InferContext& context) {
  const ir::Dims *x = context.dims(0), *w = context.dims(1);
  if (w != nullptr) context.check(w->size() == 2, "'W' has shape {}, expected [inputs, outputs]", to_string(*w));
  if (x == nullptr) return std::nullopt;
  context.check(x->size() >= 2, "'X' has shape {}, expected [..., inputs]", to_string(*x));
  if (w != nullptr) context.check(x->back().may_equal((*w)[0]), "'X' has {} inputs, 'W' is for {}", to_string(x->back()), to_string((*w)[0]));
  ir::Dims y = *x;
  y.back() = w != nullptr ? (*w)[1] : ir::Dim();
  if (const ir::Dims* bias = context.has_input(2) ? context.dims(2) : nullptr) {
    context.check(bias->size() == 1 && (*bias)[0].may_equal(y.back()), "the bias has shape {}, expected [{}]", to_string(*bias), to_string(y.back()));
  }
  return y;
}

double linear_operations(const NodeView& view) { return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.input(1).shape[0]); }

// Y = activation(X W + B + Z) with X [..., inputs], W [inputs, outputs], B [outputs], Z of Y's shape. Rounded as ops/rounded_product.h
// says.
const OpDef linear{
    .name = "tessera::Linear",
    .inputs = {{"X", types::floats, "T1"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}, {"Z", types::floats, "T3", optional}},
    .outputs = {{"Y", types::floats, "T2"}},
    .attributes = attributes(),
    .infer = infer,
    .operations = linear_operations,
    .decompose = decompose,
};

}  // namespace tessera::ops
