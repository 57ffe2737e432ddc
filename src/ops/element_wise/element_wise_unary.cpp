#include "ops/element_wise/element_wise_unary.h"

#include <cmath>
#include <numbers>

#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kFloatsAndEightBit =
    types::floats | TypeSet{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};

// Infers an element-wise test: bool, with the shape of the input.
void infer_predicate(InferContext& context) {
  ir::ValueType type = context.input(0);
  type.dtype = DType::boolean;
  context.set_output(0, std::move(type));
}

OpDef predicate(std::string_view name, int since, std::vector<AttributeSpec> attributes = {}) {
  return {.name = name,
          .since = since,
          .inputs = {{"X", kFloatsAndEightBit, "T1"}},
          .outputs = {{"Y", types::boolean, "T2"}},
          .attributes = std::move(attributes),
          .infer = infer_predicate,
          .operations = operations_per_output<1>,
          .element_wise = ElementWise::unary,
          .traits = {Trait::discontinuous}};
}

void infer_clip(InferContext& context) {
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i)) continue;
    const ir::Dims* dims = context.dims(i);
    // Exporters write bounds as one-element tensors as well as scalars.
    const ir::Dim count = dims != nullptr ? ir::product(*dims) : ir::Dim();
    context.check(!count.is_known() || count.value() == 1, "bound '{}' has shape {}, expected a scalar",
                  i == 1 ? "min" : "max", text_of(dims));
  }
  infer_same_as_input(context);
}

Term square(Term x) {
  return x * x;
}

// Elements at a bound have a zero gradient; the gradient of a bound is the sum over the elements at it.
void clip_gradient(GradientContext& c) {
  Term flowing = c.gradient();
  const Term zero = flowing.number(0), x = c.input(0);
  if (c.has_input(2)) {
    const Term raised = c.has_input(1) ? x.combine("Max", {c.input(1)}) : x;
    const Term above = raised > c.input(2);
    c.set(2, above.choose(flowing, zero));
    flowing = above.choose(zero, flowing);
  }
  if (c.has_input(1)) {
    const Term below = x < c.input(1);
    c.set(1, below.choose(flowing, zero));
    flowing = below.choose(zero, flowing);
  }
  c.set(0, flowing);
}

}  // namespace

OpDef element_wise_unary(std::string_view name, int since, TypeSet types, double (*operations)(const NodeView&),
                         std::vector<AttributeSpec> attributes, GradientFunction gradient, Traits traits) {
  return {.name = name,
          .since = since,
          .inputs = {{"X", types, "T"}},
          .outputs = {{"Y", types, "T"}},
          .attributes = std::move(attributes),
          .infer = infer_same_as_input,
          .operations = operations,
          .gradient = gradient,
          .element_wise = ElementWise::unary,
          .traits = traits};
}

const OpDef abs = element_wise_unary("Abs", 13, types::numbers, operations_per_output<1>, {},
                                     [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Sign")); },
                                     {Trait::idempotent, Trait::non_negative, Trait::homogeneous});
const OpDef acos = element_wise_unary("Acos", 22, types::floats, operations_per_output<10>, {}, [](GradientContext& c) {
  c.set(0, -c.gradient() / (1 - square(c.input(0))).apply("Sqrt"));
});
const OpDef acosh = element_wise_unary(
    "Acosh", 22, types::floats, operations_per_output<10>, {},
    [](GradientContext& c) { c.set(0, c.gradient() / (square(c.input(0)) - 1).apply("Sqrt")); }, {Trait::non_negative});
const OpDef asin = element_wise_unary("Asin", 22, types::floats, operations_per_output<10>, {}, [](GradientContext& c) {
  c.set(0, c.gradient() / (1 - square(c.input(0))).apply("Sqrt"));
});
const OpDef asinh =
    element_wise_unary("Asinh", 22, types::floats, operations_per_output<10>, {},
                       [](GradientContext& c) { c.set(0, c.gradient() / (square(c.input(0)) + 1).apply("Sqrt")); });
const OpDef atan = element_wise_unary("Atan", 22, types::floats, operations_per_output<10>, {},
                                      [](GradientContext& c) { c.set(0, c.gradient() / (square(c.input(0)) + 1)); });
const OpDef atanh = element_wise_unary("Atanh", 22, types::floats, operations_per_output<10>, {},
                                       [](GradientContext& c) { c.set(0, c.gradient() / (1 - square(c.input(0)))); });
const OpDef bitwise_not =
    element_wise_unary("BitwiseNot", 18, types::integers, operations_per_output<1>, {}, nullptr, {Trait::own_inverse});
const OpDef ceil = element_wise_unary("Ceil", 13, types::floats, operations_per_output<1>, {}, zero_gradient,
                                      {Trait::discontinuous, Trait::idempotent});
const OpDef cos = element_wise_unary("Cos", 22, types::floats, operations_per_output<10>, {},
                                     [](GradientContext& c) { c.set(0, -c.gradient() * c.input(0).apply("Sin")); });
const OpDef cosh = element_wise_unary("Cosh", 22, types::floats, operations_per_output<10>, {},
                                      [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Sinh")); },
                                      {Trait::non_negative});
const OpDef erf = element_wise_unary("Erf", 13, types::floats, operations_per_output<10>, {}, [](GradientContext& c) {
  c.set(0, c.gradient() * (-square(c.input(0))).apply("Exp") * (2 / std::sqrt(std::numbers::pi)));
});
const OpDef exp =
    element_wise_unary("Exp", 13, types::floats, operations_per_output<8>, {},
                       [](GradientContext& c) { c.set(0, c.gradient() * c.output()); }, {Trait::non_negative});
const OpDef floor = element_wise_unary("Floor", 13, types::floats, operations_per_output<1>, {}, zero_gradient,
                                       {Trait::discontinuous, Trait::idempotent});
const OpDef log = element_wise_unary("Log", 13, types::floats, operations_per_output<8>, {},
                                     [](GradientContext& c) { c.set(0, c.gradient() / c.input(0)); });
const OpDef logical_not =
    element_wise_unary("Not", 1, types::boolean, operations_per_output<1>, {}, nullptr, {Trait::own_inverse});
const OpDef neg =
    element_wise_unary("Neg", 13, types::signed_numbers, operations_per_output<1>, {},
                       [](GradientContext& c) { c.set(0, -c.gradient()); }, {Trait::own_inverse, Trait::homogeneous});
const OpDef reciprocal = element_wise_unary("Reciprocal", 13, types::floats, operations_per_output<1>, {},
                                            [](GradientContext& c) { c.set(0, -c.gradient() * square(c.output())); });
const OpDef round = element_wise_unary("Round", 22, types::floats, operations_per_output<1>, {}, zero_gradient,
                                       {Trait::discontinuous, Trait::idempotent});  // halves to even
const OpDef sign = element_wise_unary("Sign", 13, types::numbers, operations_per_output<1>, {}, zero_gradient,
                                      {Trait::discontinuous, Trait::idempotent});
const OpDef sin = element_wise_unary("Sin", 22, types::floats, operations_per_output<10>, {},
                                     [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Cos")); });
const OpDef sinh = element_wise_unary("Sinh", 22, types::floats, operations_per_output<10>, {},
                                      [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Cosh")); });
const OpDef sqrt =
    element_wise_unary("Sqrt", 13, types::floats, operations_per_output<1>, {},
                       [](GradientContext& c) { c.set(0, c.gradient() / (c.output() * 2)); }, {Trait::non_negative});
const OpDef tan = element_wise_unary("Tan", 22, types::floats, operations_per_output<10>, {},
                                     [](GradientContext& c) { c.set(0, c.gradient() * (square(c.output()) + 1)); });

const OpDef is_inf = predicate("IsInf", 20,
                               {{"detect_negative", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                                {"detect_positive", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}});
const OpDef is_nan = predicate("IsNaN", 20);

// min(max(x, lowest), highest); the highest wins where the bounds cross.
const OpDef clip{
    .name = "Clip",
    .since = 13,
    .inputs = {{"input", types::numbers, "T"},
               {"min", types::numbers, "T", optional},
               {"max", types::numbers, "T", optional}},
    .outputs = {{"output", types::numbers, "T"}},
    .infer = infer_clip,
    .operations = operations_per_output<2>,
    .gradient = clip_gradient,
    .element_wise = ElementWise::unary,
};

}  // namespace tessera::ops
