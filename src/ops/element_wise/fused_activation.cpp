#include "ops/element_wise/fused_activation.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/error.h"
#include "ops/core/text_of.h"
#include "ops/op_table.h"

namespace tessera::ops {
namespace {

// A bound of Clip, or `otherwise` where it is absent; nothing when it is not known.
std::optional<float> bound(const ir::Graph& graph, const ir::Node& clip, std::size_t input, float otherwise) {
  if (clip.inputs.size() <= input || !clip.inputs[input].valid()) return otherwise;
  const Tensor* constant = graph.constant(clip.inputs[input]);
  if (constant == nullptr || constant->dtype() != DType::f32 || !constant->has_data() || constant->elements() != 1)
    return std::nullopt;
  return *constant->data<float>();
}

std::optional<FusedActivation> clip_of(const ir::Graph& graph, const ir::Node& node) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::optional<float> low = bound(graph, node, 1, -infinity), high = bound(graph, node, 2, infinity);
  return low && high ? std::optional(FusedActivation{"Clip", {*low, *high}}) : std::nullopt;
}

// A PRelu with one slope for all elements is a LeakyRelu.
std::optional<FusedActivation> leaky_relu_of(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* slopes = graph.constant(node.inputs[1]);
  if (slopes == nullptr || slopes->dtype() != DType::f32 || !slopes->has_data() || slopes->elements() == 0)
    return std::nullopt;
  const std::span<const float> values = slopes->values<float>();
  return std::ranges::all_of(values, [&](float slope) { return slope == values[0]; })
             ? std::optional(FusedActivation{"LeakyRelu", {values[0]}})
             : std::nullopt;
}

std::optional<FusedActivation> by_attributes(const ActivationForm& form, const ir::Node& node) {
  const AttributeReader reader(node, op_of(node));
  FusedActivation found{form.name, {}};
  for (const std::string_view name : form.parameters) found.values.push_back(reader.real(name));
  return found;
}

}  // namespace

std::span<const ActivationForm> activation_forms() {
  using Spelling = ActivationForm::Spelling;
  static const std::vector<ActivationForm> table{
      {"Relu", 1},
      {"Tanh", 10},
      {"Sigmoid", 10},
      {"Softplus", 17},
      {"Softsign", 3},
      {"HardSwish", 5},
      {"Mish", 28},
      {"LeakyRelu", 2, {"alpha"}},
      {"Elu", 10, {"alpha"}},
      {"Swish", 12, {"alpha"}},
      {"Celu", 12, {"alpha"}},
      {"ThresholdedRelu", 1, {"alpha"}},
      {"HardSigmoid", 4, {"alpha", "beta"}},
      {"Selu", 11, {"alpha", "gamma"}},
      {"Gelu", 14, {}, Spelling::particular},
      {"GeluTanh", 14, {}, Spelling::particular},  // Gelu, approximated by tanh
      {"Clip", 2, {"min", "max"}, Spelling::particular},
      {"ScaledTanh", 12, {"alpha", "beta"}, Spelling::none},          // alpha tanh(beta x)
      {"ParametricSoftplus", 19, {"alpha", "beta"}, Spelling::none},  // alpha log(1 + exp(beta x))
  };
  return table;
}

const ActivationForm* find_activation_form(std::string_view name) {
  const auto found = std::ranges::find(activation_forms(), name, &ActivationForm::name);
  return found == activation_forms().end() ? nullptr : &*found;
}

std::span<const std::string_view> activation_parameters(std::string_view activation) {
  const ActivationForm* form = find_activation_form(activation);
  require(form != nullptr, ErrorKind::invalid_model, "activation '{}' is not known", activation);
  return form->parameters;
}

std::optional<FusedActivation> fused_activation_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == "Gelu")
    return FusedActivation{AttributeReader(node, op_of(node)).text("approximate") == "tanh" ? "GeluTanh" : "Gelu", {}};
  if (node.op == "Clip") return clip_of(graph, node);
  if (node.op == "PRelu") return leaky_relu_of(graph, node);
  const ActivationForm* form = find_activation_form(node.op);
  return form != nullptr && form->spelling == ActivationForm::Spelling::operator_of_the_name
             ? by_attributes(*form, node)
             : std::nullopt;
}

std::vector<AttributeSpec> activation_attributes() {
  return {{"activation", ir::AttributeKind::text}, {"activation_params", ir::AttributeKind::reals}};
}

std::vector<float> activation_params(const AttributeReader& reader) {
  if (!reader.has_attribute("activation") || activation_parameters(reader.text("activation")).empty()) return {};
  return reader.has_attribute("activation_params") ? reader.reals("activation_params") : std::vector<float>{};
}

void check_activation(const InferContext& context) {
  if (!context.has_attribute("activation")) return;
  const std::size_t wanted = activation_parameters(context.text("activation")).size(),
                    given = activation_params(context).size();
  context.check(given == wanted, "activation '{}' has {} parameters, expected {}", context.text("activation"), given,
                wanted);
}

void check_addend(const InferContext& context, std::size_t i, const ir::Dims& result) {
  const ir::Dims* z = context.has_input(i) ? context.dims(i) : nullptr;
  if (z == nullptr) return;
  bool same = z->size() == result.size();
  for (std::size_t axis = 0; same && axis < result.size(); ++axis) same = (*z)[axis].may_equal(result[axis]);
  context.check(same, "input 'Z' has shape {}, expected that of the result {}", text_of(*z), text_of(result));
}

ir::ValueId add_activation(GraphBuilder& builder, const AttributeReader& reader, ir::ValueId x) {
  return reader.has_attribute("activation")
             ? add_activation(builder, reader.text("activation"), activation_params(reader), x)
             : x;
}

ir::ValueId add_activation(GraphBuilder& builder, std::string_view activation, std::span<const float> parameters,
                           ir::ValueId x) {
  const std::span<const std::string_view> names = activation_parameters(activation);
  TESSERA_ASSERT(names.size() == parameters.size(), "one value a parameter of an activation");
  const auto parameter = [&](std::size_t i) { return builder.scalar(parameters[i], builder.dtype(x)); };
  if (activation == "Clip") return builder.add("Clip", {x, parameter(0), parameter(1)});
  if (activation == "ScaledTanh" || activation == "ParametricSoftplus") {
    const ir::ValueId scaled = builder.add("Mul", {x, parameter(1)});
    return builder.add("Mul", {builder.add(activation == "ScaledTanh" ? "Tanh" : "Softplus", {scaled}), parameter(0)});
  }
  if (activation == "GeluTanh") return builder.add("Gelu", {x}, {{"approximate", std::string("tanh")}});
  ir::Attributes attributes;
  for (std::size_t i = 0; i < names.size(); ++i) attributes.emplace(names[i], parameters[i]);
  return builder.add(std::string(activation), {x}, std::move(attributes));
}

}  // namespace tessera::ops
