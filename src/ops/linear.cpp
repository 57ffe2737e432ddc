#include "ops/linear.h"

#include "ops/fused_activation.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

void infer(InferContext& context) {
  check_activation(context);
  std::optional<ir::Dims> y = linear_dims(context);
  if (!y) return context.set_output_unknown_rank(0, context.dtype(0));
  check_addend(context, 3, *y);
  context.set_output(0, context.dtype(0), std::move(*y));
}

std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs) {
  ValueId y = builder.add("MatMul", {inputs[0], inputs[1]});
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i].valid()) y = builder.add("Add", {y, inputs[i]});
  }
  return std::vector{add_activation(builder, reader, y)};
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

// Y = activation(X W + B + Z) with X [..., inputs], W [inputs, outputs], B [outputs], Z of Y's shape.
const OpDef linear{
    .name = "tessera::Linear",
    .inputs = {{"X", types::floats, "T"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}, {"Z", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = activation_attributes(),
    .infer = infer,
    .operations = linear_operations,
    .decompose = decompose,
};

}  // namespace tessera::ops
