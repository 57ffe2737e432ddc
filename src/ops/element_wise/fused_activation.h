// The activation at the end of a fused operator: a text attribute with its name, and its parameters as numbers.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/builder.h"

namespace tessera::ops {

// An activation that fused operators and programs of element-wise steps support. To add one, add a line to the table in
// fused_activation.cpp, and its operator.
struct ActivationForm {
  // The form in models: the operator of that name, with the parameters as attributes; an operator in a form that
  // fused_activation_of recognises; or no single operator.
  enum class Spelling : std::uint8_t { operator_of_the_name, particular, none };

  std::string_view name;
  int operations;  // per element
  std::vector<std::string_view> parameters = {};
  Spelling spelling = Spelling::operator_of_the_name;
};
std::span<const ActivationForm> activation_forms();
// Null for an unknown name.
const ActivationForm* find_activation_form(std::string_view name);

// An activation of a fused operator, with the values of its parameters.
struct FusedActivation {
  std::string_view name;
  std::vector<float> values;
};
// The activation that the node computes from its first operand; nothing where it is none, or a parameter is not known.
std::optional<FusedActivation> fused_activation_of(const ir::Graph& graph, const ir::Node& node);

// Names of the activation's parameters, in order; throws Error(invalid_model) for an activation that is not known.
std::span<const std::string_view> activation_parameters(std::string_view activation);

// The attributes of operators that end with an activation: "activation" and "activation_params".
// passes/fuse/fuse_epilogues.cpp sets them for Tessera's own operators that have them, and makes a sum in front of the
// activation their input Z, if they have one.
std::vector<AttributeSpec> activation_attributes();
// The values of the parameters that the node states; empty without an activation.
std::vector<float> activation_params(const AttributeReader& reader);
// Throws Error(invalid_model) unless the node states as many values as its activation has parameters.
void check_activation(const InferContext& context);
// Throws Error(invalid_model) where input `i`, which is added to a result of these dimensions, has others.
void check_addend(const InferContext& context, std::size_t i, const ir::Dims& result);

// activation(x) as standard operators, with one value per parameter.
ir::ValueId add_activation(GraphBuilder& builder, std::string_view activation, std::span<const float> parameters,
                           ir::ValueId x);
// The node's own activation applied to x; x itself where the node has none.
ir::ValueId add_activation(GraphBuilder& builder, const AttributeReader& reader, ir::ValueId x);

}  // namespace tessera::ops
