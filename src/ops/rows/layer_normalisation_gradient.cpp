#include "ops/rows/layer_normalisation_gradient.h"

#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

const std::vector<AttributeSpec> kLayerNormalisationGradientAttributes{
    {"axis", AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
    {"epsilon", AttributeKind::real, ir::Attribute(1e-5f)}};
const std::vector<Parameter> kLayerNormalisationGradientInputs{
    {"dY", types::floats, "T"}, {"X", types::floats, "T"}, {"Scale", types::floats, "T"}};

void infer_layer_normalisation_gradient(InferContext& context) {
  context.set_output(0, context.input(1));
  context.set_output(1, context.input(2));
  context.set_output(2, context.input(2));
  const ir::Dims *x = context.dims(1), *scale = context.dims(2), *gradient = context.dims(0);
  if (x == nullptr) return;
  const auto agree = [](const ir::Dims& a, std::span<const ir::Dim> b) {
    bool all = a.size() == b.size();
    for (std::size_t i = 0; all && i < a.size(); ++i) all = a[i].may_equal(b[i]);
    return all;
  };
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(x->size()));
  context.check(gradient == nullptr || agree(*gradient, *x), "'dY' has shape {}, expected that of 'X', {}",
                gradient != nullptr ? to_string(*gradient) : "", to_string(*x));
  context.check(scale == nullptr || agree(*scale, std::span(*x).subspan(static_cast<std::size_t>(axis))),
                "'Scale' has shape {}, expected that of a row of {}", scale != nullptr ? to_string(*scale) : "",
                to_string(*x));
}

// Whether input i surely has the shape of a row.
bool is_a_row(GradientContext& c, std::size_t i) {
  const ir::Dims* x = c.builder().dims(c.input(0).id());
  const ir::Dims* own = c.builder().dims(c.input(i).id());
  if (x == nullptr || own == nullptr) return false;
  const std::int64_t axis = normalise_axis(c.integer("axis"), static_cast<std::int64_t>(x->size()));
  if (own->size() + static_cast<std::size_t>(axis) != x->size()) return false;
  for (std::size_t k = 0; k < own->size(); ++k) {
    const ir::Dim &a = (*own)[k], &b = (*x)[static_cast<std::size_t>(axis) + k];
    if (a != b || !(a.is_known() || a.is_symbol())) return false;
  }
  return true;
}

}  // namespace

bool set_row_gradients(GradientContext& c) {
  const std::size_t operands = c.op().name == "LayerNormalization" ? 3 : 2;
  for (std::size_t i = 1; i < operands; ++i) {
    if (c.has_input(i) && (!is_a_row(c, i) || c.input(i).dtype() != c.input(0).dtype())) return false;
  }
  const std::vector<ir::ValueId> made = c.builder().add_multi(
      "tessera::" + std::string(c.op().name) + "Gradient", {c.gradient().id(), c.input(0).id(), c.input(1).id()},
      operands, {{"axis", c.integer("axis")}, {"epsilon", c.real("epsilon")}});
  for (std::size_t i = 0; i < operands; ++i) c.set(i, {c.builder(), made[i]});
  return true;
}

const OpDef layer_normalization_gradient{
    .name = "tessera::LayerNormalizationGradient",
    .since = 1,
    .inputs = kLayerNormalisationGradientInputs,
    .outputs = {{"dX", types::floats, "T"}, {"dScale", types::floats, "T"}, {"dB", types::floats, "T"}},
    .attributes = kLayerNormalisationGradientAttributes,
    .infer = infer_layer_normalisation_gradient,
    .operations = operations_per_input<16>,
};

const OpDef rms_normalization_gradient{
    .name = "tessera::RMSNormalizationGradient",
    .since = 1,
    .inputs = kLayerNormalisationGradientInputs,
    .outputs = {{"dX", types::floats, "T"}, {"dScale", types::floats, "T"}},
    .attributes = kLayerNormalisationGradientAttributes,
    .infer = infer_layer_normalisation_gradient,
    .operations = operations_per_input<12>,
};

}  // namespace tessera::ops
