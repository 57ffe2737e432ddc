#include "ops/activation.h"

#include "ops/element_wise_unary.h"

namespace tessera::ops {
namespace {

AttributeSpec real(std::string_view name, float value) {
  return {name, ir::AttributeKind::real, ir::Attribute(value)};
}

void infer_gelu(InferContext& context) {
  const std::string& approximate = context.text("approximate");
  context.check(approximate == "none" || approximate == "tanh", "approximate is '{}', expected none or tanh",
                approximate);
  infer_same_as_input(context);
}

}  // namespace

const OpDef relu = element_wise_unary("Relu", 14, types::signed_numbers, operations_per_output<1>);
const OpDef sigmoid = element_wise_unary("Sigmoid", 13, types::floats, operations_per_output<10>);
const OpDef tanh = element_wise_unary("Tanh", 13, types::floats, operations_per_output<10>);
// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
const OpDef celu = element_wise_unary("Celu", 12, {DType::f32}, operations_per_output<12>, {real("alpha", 1.0f)});
// x < 0 ? alpha (exp(x) - 1) : x
const OpDef elu = element_wise_unary("Elu", 22, types::floats, operations_per_output<10>, {real("alpha", 1.0f)});
// max(0, min(1, alpha x + beta))
const OpDef hard_sigmoid = element_wise_unary("HardSigmoid", 22, types::floats, operations_per_output<4>,
                                              {real("alpha", 0.2f), real("beta", 0.5f)});
// x max(0, min(1, x / 6 + 1 / 2))
const OpDef hard_swish = element_wise_unary("HardSwish", 22, types::floats, operations_per_output<5>);
// x < 0 ? alpha x : x
const OpDef leaky_relu =
    element_wise_unary("LeakyRelu", 16, types::floats, operations_per_output<2>, {real("alpha", 0.01f)});
// x tanh(log(1 + exp(x)))
const OpDef mish = element_wise_unary("Mish", 22, types::floats, operations_per_output<28>);
// gamma (x <= 0 ? alpha exp(x) - alpha : x); Klambauer et al., "Self-normalizing neural networks" (NIPS 2017).
const OpDef selu =
    element_wise_unary("Selu", 22, types::floats, operations_per_output<11>,
                       {real("alpha", 1.67326319217681884765625f), real("gamma", 1.05070102214813232421875f)});
// x < -lambd ? x + bias : x > lambd ? x - bias : 0
const OpDef shrink = element_wise_unary("Shrink", 9, types::numbers.without({DType::bf16}), operations_per_output<3>,
                                        {real("bias", 0.0f), real("lambd", 0.5f)});
// log(1 + exp(x))
const OpDef softplus = element_wise_unary("Softplus", 22, types::floats, operations_per_output<17>);
// x / (1 + |x|)
const OpDef softsign = element_wise_unary("Softsign", 22, types::floats, operations_per_output<3>);
// x sigmoid(alpha x)
const OpDef swish = element_wise_unary("Swish", 24, types::floats, operations_per_output<12>, {real("alpha", 1.0f)});
// x > alpha ? x : 0
const OpDef thresholded_relu =
    element_wise_unary("ThresholdedRelu", 22, types::floats, operations_per_output<1>, {real("alpha", 1.0f)});

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
};

}  // namespace tessera::ops
