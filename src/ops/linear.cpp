#include "ops/linear.h"

#include "ops/fused_activation.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

void infer(InferContext& context) {
  check_activation(context);
  const ir::Dims *x = context.dims(0), *w = context.dims(1);
  if (w != nullptr) context.check(w->size() == 2, "'W' has shape {}, expected [inputs, outputs]", to_string(*w));
  if (x == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(x->size() >= 2, "'X' has shape {}, expected [..., inputs]", to_string(*x));
  if (w != nullptr) context.check(x->back().may_equal((*w)[0]), "'X' has {} inputs, 'W' is for {}", to_string(x->back()), to_string((*w)[0]));
  ir::Dims y = *x;
  y.back() = w != nullptr ? (*w)[1] : ir::Dim();
  if (const ir::Dims* bias = context.has_input(2) ? context.dims(2) : nullptr) {
    context.check(bias->size() == 1 && (*bias)[0].may_equal(y.back()), "the bias has shape {}, expected [{}]", to_string(*bias), to_string(y.back()));
  }
  if (const ir::Dims* z = context.has_input(3) ? context.dims(3) : nullptr) {
    bool same = z->size() == y.size();
    for (std::size_t i = 0; same && i < y.size(); ++i) same = (*z)[i].may_equal(y[i]);
    context.check(same, "input 'Z' has shape {}, expected that of the result {}", to_string(*z), to_string(y));
  }
  context.set_output(0, context.dtype(0), std::move(y));
}

double operations(const NodeView& view) { return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.input(1).shape[0]); }

std::optional<std::vector<ValueId>> decompose(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs) {
  ValueId y = builder.add("MatMul", {inputs[0], inputs[1]});
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    if (inputs[i].valid()) y = builder.add("Add", {y, inputs[i]});
  }
  return std::vector{add_activation(builder, reader, y)};
}

}  // namespace

// Y = activation(X W + B + Z) with X [..., inputs], W [inputs, outputs], B [outputs], Z of Y's shape.
const OpDef linear{
    .name = "tessera::Linear",
    .inputs = {{"X", types::floats, "T"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}, {"Z", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = activation_attributes(),
    .infer = infer,
    .operations = operations,
    .decompose = decompose,
};

}  // namespace tessera::ops
