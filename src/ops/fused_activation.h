// The activation that a fused operator ends with: named by a text attribute, its parameters numbers.
#pragma once

#include <span>

#include "ops/builder.h"

namespace tessera::ops {

// Names of the activation's parameters, in order; throws Error(invalid_model) for an activation that is not known.
std::span<const std::string_view> activation_parameters(std::string_view activation);

// activation(x) as standard operators, with one value a parameter.
ir::ValueId add_activation(GraphBuilder& builder, std::string_view activation, std::span<const float> parameters, ir::ValueId x);

}  // namespace tessera::ops
