#include "backends/cpu/products/epilogue.h"

#include "ops/element_wise/fused_activation.h"

namespace tessera::backends::cpu {

std::string reject_activation(const ops::AttributeReader& reader) {
  if (!reader.has_attribute("activation")) return "";
  const std::string& name = reader.text("activation");
  const bool known = row_activation(name, {}).function != nullptr;
  return known ? "" : "no vectorised " + name;
}

ActivationPlan plan_activation(const ops::AttributeReader& reader) {
  ActivationPlan plan;
  if (!reader.has_attribute("activation")) return plan;
  const std::string& name = reader.text("activation");
  const RowActivation activation = row_activation(name, ops::activation_params(reader));
  switch (activation.form) {
    case FusedForm::above_zero:
      plan.low = 0;
      break;
    case FusedForm::bounds:
      plan.low = activation.parameters.a;
      plan.high = activation.parameters.b;
      break;
    case FusedForm::hard_swish:
      plan.is_hard_swish = true;
      [[fallthrough]];
    case FusedForm::function:
      plan.after = activation;
      break;
  }
  return plan;
}

}  // namespace tessera::backends::cpu
