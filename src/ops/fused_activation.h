// The activation that a fused operator ends with: named by a text attribute, its parameters numbers.
#pragma once

#include <span>
#include <vector>

#include "ops/builder.h"

namespace tessera::ops {

// Names of the activation's parameters, in order; throws Error(invalid_model) for an activation that is not known.
std::span<const std::string_view> activation_parameters(std::string_view activation);

// Attributes of the operators that end with one: "activation" and "activation_params".
std::vector<AttributeSpec> activation_attributes();
// Values of the parameters, as the node gives them; empty without an activation.
std::vector<float> activation_params(const AttributeReader& reader);
// Fails unless the node gives as many values as its activation has parameters.
void check_activation(const InferContext& context);
// Fails where input `i`, which is added to a result of these dimensions, is given and has others.
void check_addend(const InferContext& context, std::size_t i, const ir::Dims& result);

// activation(x) as standard operators, with one value a parameter.
ir::ValueId add_activation(GraphBuilder& builder, std::string_view activation, std::span<const float> parameters,
                           ir::ValueId x);
// The node's own activation of x; x itself where it has none.
ir::ValueId add_activation(GraphBuilder& builder, const AttributeReader& reader, ir::ValueId x);

}  // namespace tessera::ops
