#include "ops/fused_activation.h"

#include <algorithm>

#include "base/assert.h"
#include "base/error.h"

namespace tessera::ops {
namespace {

struct Form {
  std::string_view name;
  std::vector<std::string_view> parameters = {};
};

const std::vector<Form>& forms() {
  static const std::vector<Form> table{
      {"Relu"},
      {"Tanh"},
      {"Sigmoid"},
      {"Softplus"},
      {"Softsign"},
      {"HardSwish"},
      {"Mish"},
      {"Gelu"},
      {"GeluTanh"},  // Gelu, approximated by tanh
      {"LeakyRelu", {"alpha"}},
      {"Elu", {"alpha"}},
      {"Swish", {"alpha"}},
      {"Celu", {"alpha"}},
      {"ThresholdedRelu", {"alpha"}},
      {"HardSigmoid", {"alpha", "beta"}},
      {"Selu", {"alpha", "gamma"}},
      {"Clip", {"min", "max"}},
      {"ScaledTanh", {"alpha", "beta"}},          // alpha tanh(beta x)
      {"ParametricSoftplus", {"alpha", "beta"}},  // alpha log(1 + exp(beta x))
  };
  return table;
}

}  // namespace

std::span<const std::string_view> activation_parameters(std::string_view activation) {
  const auto found =
      std::find_if(forms().begin(), forms().end(), [&](const Form& form) { return form.name == activation; });
  require(found != forms().end(), ErrorKind::invalid_model, "activation '{}' is not known", activation);
  return found->parameters;
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
  context.check(same, "input 'Z' has shape {}, expected that of the result {}", to_string(*z), to_string(result));
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
