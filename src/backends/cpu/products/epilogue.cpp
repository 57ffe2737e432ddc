#include "backends/cpu/products/epilogue.h"

#include <vector>

#include "ops/fused_activation.h"

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
  const std::vector<float> values = ops::activation_params(reader);
  if (name == "Relu") {
    plan.low = 0;
  } else if (name == "Clip") {
    plan.low = values[0];
    plan.high = values[1];
  } else {
    plan.after = row_activation(name, values);
  }
  return plan;
}

}  // namespace tessera::backends::cpu
