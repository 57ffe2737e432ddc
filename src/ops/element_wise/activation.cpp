#include "ops/element_wise/activation.h"

#include <cmath>
#include <numbers>

#include "ops/core/gradient.h"
#include "ops/core/signatures.h"
#include "ops/element_wise/element_wise_unary.h"

namespace tessera::ops {
namespace {

void infer_gelu(InferContext& context) {
  const std::string& approximate = context.text("approximate");
  context.check(approximate == "none" || approximate == "tanh", "approximate is '{}', expected none or tanh",
                approximate);
  infer_same_as_input(context);
}

// The derivative of x Φ(x): Φ(x) + x Φ'(x), where Φ is the normal distribution function or its approximation by tanh.
void gelu_gradient(GradientContext& c) {
  const Term x = c.input(0);
  if (c.text("approximate") == "none") {
    const Term distribution = ((x / std::numbers::sqrt2).apply("Erf") + 1) * 0.5;
    const Term density = (x * x * -0.5).apply("Exp") / std::sqrt(2 * std::numbers::pi);
    return c.set(0, c.gradient() * (distribution + x * density));
  }
  const double scale = std::sqrt(2 / std::numbers::pi);
  const Term t = ((x + x * x * x * 0.044715) * scale).apply("Tanh");
  const Term slope = (x * x * (3 * 0.044715) + 1) * scale;
  c.set(0, c.gradient() * ((t + 1) * 0.5 + x * (1 - t * t) * slope * 0.5));
}

}  // namespace

const OpDef relu = element_wise_unary("Relu", 14, types::signed_numbers, operations_per_output<1>, {},
                                      [](GradientContext& c) { c.set(0, (c.output() > 0).choose(c.gradient(), 0)); },
                                      {Trait::idempotent, Trait::non_negative, Trait::homogeneous});
const OpDef sigmoid = element_wise_unary(
    "Sigmoid", 13, types::floats, operations_per_output<10>, {},
    [](GradientContext& c) { c.set(0, c.gradient() * c.output() * (1 - c.output())); }, {Trait::non_negative});
const OpDef tanh = element_wise_unary("Tanh", 13, types::floats, operations_per_output<10>, {}, [](GradientContext& c) {
  c.set(0, c.gradient() * (1 - c.output() * c.output()));
});
// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
const OpDef celu = element_wise_unary(
    "Celu", 12, {DType::f32}, operations_per_output<12>, {real_attribute("alpha", 1.0f)}, [](GradientContext& c) {
      const Term g = c.gradient();
      c.set(0, (c.input(0) > 0).choose(g, g * (c.input(0) / c.real("alpha")).apply("Exp")));
    });
// x < 0 ? alpha (exp(x) - 1) : x
const OpDef elu = element_wise_unary("Elu", 22, types::floats, operations_per_output<10>,
                                     {real_attribute("alpha", 1.0f)}, [](GradientContext& c) {
                                       const Term g = c.gradient();
                                       c.set(0, (c.input(0) < 0).choose(g * (c.output() + c.real("alpha")), g));
                                     });
// max(0, min(1, alpha x + beta))
const OpDef hard_sigmoid =
    element_wise_unary("HardSigmoid", 22, types::floats, operations_per_output<4>,
                       {real_attribute("alpha", 0.2f), real_attribute("beta", 0.5f)},
                       [](GradientContext& c) {
                         c.set(0, ((c.output() > 0) & (c.output() < 1)).choose(c.gradient() * c.real("alpha"), 0));
                       },
                       {Trait::non_negative});
// x max(0, min(1, x / 6 + 1 / 2))
const OpDef hard_swish =
    element_wise_unary("HardSwish", 22, types::floats, operations_per_output<5>, {}, [](GradientContext& c) {
      const Term g = c.gradient(), x = c.input(0);
      c.set(0, (x < -3).choose(g.number(0), (x > 3).choose(g, g * (x / 3 + 0.5))));
    });
// x < 0 ? alpha x : x
const OpDef leaky_relu = element_wise_unary(
    "LeakyRelu", 16, types::floats, operations_per_output<2>, {real_attribute("alpha", 0.01f)},
    [](GradientContext& c) { c.set(0, (c.input(0) < 0).choose(c.gradient() * c.real("alpha"), c.gradient())); },
    {Trait::homogeneous});
// x tanh(log(1 + exp(x)))
const OpDef mish = element_wise_unary("Mish", 22, types::floats, operations_per_output<28>, {}, [](GradientContext& c) {
  const Term x = c.input(0), t = x.apply("Softplus").apply("Tanh");
  c.set(0, c.gradient() * (t + x * (1 - t * t) * x.apply("Sigmoid")));
});
// gamma (x <= 0 ? alpha exp(x) - alpha : x); Klambauer et al., "Self-normalizing neural networks" (NIPS 2017).
const OpDef selu = element_wise_unary(
    "Selu", 22, types::floats, operations_per_output<11>,
    {real_attribute("alpha", 1.67326319217681884765625f), real_attribute("gamma", 1.05070102214813232421875f)},
    [](GradientContext& c) {
      const Term g = c.gradient() * c.real("gamma");
      c.set(0, (c.input(0) > 0).choose(g, g * c.real("alpha") * c.input(0).apply("Exp")));
    });
// x < -lambd ? x + bias : x > lambd ? x - bias : 0
const OpDef shrink =
    element_wise_unary("Shrink", 9, types::numbers.without({DType::bf16}), operations_per_output<3>,
                       {real_attribute("bias", 0.0f), real_attribute("lambd", 0.5f)},
                       [](GradientContext& c) {
                         const Term g = c.gradient(), x = c.input(0);
                         c.set(0, (x < -c.real("lambd")).choose(g, (x > c.real("lambd")).choose(g, 0)));
                       },
                       {Trait::discontinuous});
// log(1 + exp(x))
const OpDef softplus = element_wise_unary(
    "Softplus", 22, types::floats, operations_per_output<17>, {},
    [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Sigmoid")); }, {Trait::non_negative});
// x / (1 + |x|)
const OpDef softsign =
    element_wise_unary("Softsign", 22, types::floats, operations_per_output<3>, {}, [](GradientContext& c) {
      const Term below = c.input(0).apply("Abs") + 1;
      c.set(0, c.gradient() / (below * below));
    });
// x sigmoid(alpha x)
const OpDef swish = element_wise_unary("Swish", 24, types::floats, operations_per_output<12>,
                                       {real_attribute("alpha", 1.0f)}, [](GradientContext& c) {
                                         const Term x = c.input(0), s = (x * c.real("alpha")).apply("Sigmoid");
                                         c.set(0, c.gradient() * (s + x * s * (1 - s) * c.real("alpha")));
                                       });
// x > alpha ? x : 0
const OpDef thresholded_relu =
    element_wise_unary("ThresholdedRelu", 22, types::floats, operations_per_output<1>, {real_attribute("alpha", 1.0f)},
                       [](GradientContext& c) { c.set(0, (c.input(0) > c.real("alpha")).choose(c.gradient(), 0)); },
                       {Trait::discontinuous});

// x / 2 (1 + erf(x / sqrt 2)), or with approximate = tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
// Hendrycks and Gimpel, "Gaussian error linear units" (arXiv:1606.08415).
const OpDef gelu{
    .name = "Gelu",
    .since = 20,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {{"approximate", ir::AttributeKind::text, ir::Attribute(std::string("none"))}},
    .infer = infer_gelu,
    .operations = operations_per_output<14>,
    .gradient = gelu_gradient,
    .element_wise = ElementWise::unary,
};

}  // namespace tessera::ops
