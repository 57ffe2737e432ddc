// The activation that a fused operator ends with: named by a text attribute, its parameters numbers.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/builder.h"

namespace tessera::ops {

// An activation that fused operators and programs of element-wise steps know. A new one is a line of the table in
// fused_activation.cpp, beside its operator.
struct ActivationForm {
  // How a model writes it: as the operator of that name, with the parameters as attributes; by an operator in a way
  // that fused_activation_of knows; or by no single operator.
  enum class Spelling : std::uint8_t { operator_of_the_name, particular, none };

  std::string_view name;
  int operations;  // for an element
  std::vector<std::string_view> parameters = {};
  Spelling spelling = Spelling::operator_of_the_name;
};
std::span<const ActivationForm> activation_forms();
// Null for a name that is none.
const ActivationForm* find_activation_form(std::string_view name);

// An activation as fused operators name it, with the values of its parameters.
struct FusedActivation {
  std::string_view name;
  std::vector<float> values;
};
// The activation that the node is of its first operand; nothing where it is none, or a parameter is not known.
std::optional<FusedActivation> fused_activation_of(const ir::Graph& graph, const ir::Node& node);

// Names of the activation's parameters, in order; throws Error(invalid_model) for an activation that is not known.
std::span<const std::string_view> activation_parameters(std::string_view activation);

// Attributes of the operators that end with one: "activation" and "activation_params". passes/fuse/fuse_epilogues.cpp
// gives them to operators of Tessera's own that have them, and a sum behind those to their input Z, if they have one.
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
