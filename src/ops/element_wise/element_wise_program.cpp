#include "ops/element_wise/element_wise_program.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/builder.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/op_table.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;
using Kind = ElementWiseKind;

// Operations as the operators themselves count them.
constexpr ElementWiseForm kForms[] = {
    {"Constant", Kind::constant, 0, 1},
    {"QuantizeU8", Kind::quantise, 3, 2},
    {"QuantizeI8", Kind::quantise, 3, 2},
    {"DequantizeLinear", Kind::dequantise, 2, 2},
    {"Add", Kind::binary, 1},
    {"Sub", Kind::binary, 1},
    {"Mul", Kind::binary, 1},
    {"Div", Kind::binary, 1},
    {"Max", Kind::binary, 1},
    {"Min", Kind::binary, 1},
    {"PRelu", Kind::binary, 1},
    {"Abs", Kind::unary, 1},
    {"Ceil", Kind::unary, 1},
    {"Erf", Kind::unary, 10},
    {"Exp", Kind::unary, 8},
    {"Floor", Kind::unary, 1},
    {"Log", Kind::unary, 8},
    {"Neg", Kind::unary, 1},
    {"Reciprocal", Kind::unary, 1},
    {"Round", Kind::unary, 1},
    {"Sign", Kind::unary, 1},
    {"Sqrt", Kind::unary, 1},
    {"Equal", Kind::comparison, 1},
    {"Greater", Kind::comparison, 1},
    {"GreaterOrEqual", Kind::comparison, 1},
    {"Less", Kind::comparison, 1},
    {"LessOrEqual", Kind::comparison, 1},
    {"IsNaN", Kind::test, 1},
    {"ToBool", Kind::test, 1},
    {"And", Kind::logic, 1},
    {"Or", Kind::logic, 1},
    {"Xor", Kind::logic, 1},
    {"Not", Kind::inverse, 1},
    {"Where", Kind::choice, 1},
    {"ToReal", Kind::widen, 1},
};

// The forms above and those of the activations that an operator computes.
std::vector<ElementWiseForm> all_forms() {
  std::vector<ElementWiseForm> forms(std::begin(kForms), std::end(kForms));
  for (const ActivationForm& form : activation_forms()) {
    if (form.spelling != ActivationForm::Spelling::none)
      forms.push_back({form.name, Kind::activation, form.operations, static_cast<int>(form.parameters.size())});
  }
  return forms;
}

bool is_byte(DType type) {
  return type == DType::u8 || type == DType::i8;
}

// Checks what attributes tell: forms, parameters and earlier operands.
void check_element_wise_program_attributes(const InferContext& context) {
  const std::vector<std::string>& names = context.texts("steps");
  context.check(!names.empty() && names.size() <= kMostElementWiseSteps, "has {} steps, expected 1 to {}", names.size(),
                kMostElementWiseSteps);
  const std::size_t operands = context.integers("operands").size(), parameters = context.reals("parameters").size();
  context.check(operands == 2 * names.size() || operands == 3 * names.size(),
                "{} operands for {} steps, expected two or three for each", operands, names.size());
  context.check(parameters == 2 * names.size(), "{} parameters for {} steps, expected two for each", parameters,
                names.size());
  for (const std::string& name : names)
    context.check(find_element_wise_form(name) != nullptr, "step '{}' is not known", name);
}

void check_zero_point(const InferContext& context, float zero, DType type) {
  const float low = type == DType::u8 ? 0 : -128, high = type == DType::u8 ? 255 : 127;
  context.check(zero >= low && zero <= high && zero == std::nearbyint(zero), "zero point {} is no {}", zero,
                name_of(type));
}

void infer_element_wise_program(InferContext& context) {
  check_element_wise_program_attributes(context);
  const std::vector<ElementWiseStep> steps = element_wise_steps(context);
  const std::size_t inputs = context.input_count();
  std::vector<DType> types;
  for (std::size_t i = 0; i < inputs; ++i) types.push_back(context.dtype(i));
  std::vector<bool> used(inputs + steps.size());
  for (const ElementWiseStep& step : steps) {
    for (std::size_t i = 0; i < step.operand_count(); ++i) {
      const std::int64_t operand = step.operands[i];
      context.check(operand >= 0 && operand < static_cast<std::int64_t>(types.size()),
                    "step {} ('{}') takes value {}, expected an earlier one", types.size() - inputs, step.form->name,
                    operand);
      const DType type = types[static_cast<std::size_t>(operand)];
      context.check(takes(step, i, type), "step {} ('{}') takes {}", types.size() - inputs, step.form->name,
                    name_of(type));
      if (step.form->kind == Kind::dequantise) check_zero_point(context, step.parameters[1], type);
      used[static_cast<std::size_t>(operand)] = true;
    }
    if (step.form->kind == Kind::quantise) check_zero_point(context, step.parameters[1], result_type(step));
    types.push_back(result_type(step));
  }
  used.back() = true;
  context.check(std::ranges::all_of(used, [](bool value) { return value; }), "a value of the program is not used");
  infer_broadcast(context);
  if (!context.wants_output(0)) return;
  ir::ValueType type = *context.results()[0];
  type.dtype = types.back();
  context.set_output(0, std::move(type));
}

ValueId build(GraphBuilder& builder, const ElementWiseStep& step, std::span<const ValueId> values) {
  const auto operand = [&](std::size_t i) { return values[static_cast<std::size_t>(step.operands[i])]; };
  const std::string name(step.form->name);
  const auto [a, b] = step.parameters;
  if (step.form->kind == Kind::constant) return builder.scalar(a);
  if (step.form->kind == Kind::binary) return builder.add(name, {operand(0), operand(1)});
  if (step.form->kind == Kind::quantise)
    return builder.add("QuantizeLinear", {operand(0), builder.scalar(a), builder.scalar(b, result_type(step))});
  if (step.form->kind == Kind::dequantise)
    return builder.add(name, {operand(0), builder.scalar(a), builder.scalar(b, builder.dtype(operand(0)))});
  if (step.form->kind == Kind::comparison || step.form->kind == Kind::logic)
    return builder.add(name, {operand(0), operand(1)});
  if (step.form->kind == Kind::choice) return builder.add(name, {operand(0), operand(1), operand(2)});
  if (step.form->kind == Kind::widen || name == "ToBool") return builder.cast(operand(0), result_type(step));
  if (step.form->kind == Kind::activation)
    return add_activation(
        builder, name, std::span(step.parameters).first(static_cast<std::size_t>(step.form->parameters)), operand(0));
  return builder.add(name, {operand(0)});
}

std::optional<std::vector<ValueId>> decompose_element_wise_program(GraphBuilder& builder, const AttributeReader& reader,
                                                                   std::span<const ValueId> inputs) {
  std::vector<ValueId> values(inputs.begin(), inputs.end());
  for (const ElementWiseStep& step : element_wise_steps(reader)) values.push_back(build(builder, step, values));
  return std::vector{values.back()};
}

double element_wise_program_operations(const NodeView& view) {
  double each = 0;
  for (const ElementWiseStep& step : element_wise_steps(view)) each += step.form->operations;
  return each * static_cast<double>(view.output(0).elements());
}

// The number that a constant of one element holds.
std::optional<float> number(const ir::Graph& graph, const ir::Node& node, std::size_t input,
                            std::optional<float> otherwise) {
  if (node.inputs.size() <= input || !node.inputs[input].valid()) return otherwise;
  const Tensor* constant = graph.constant(node.inputs[input]);
  if (constant == nullptr || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  if (constant->dtype() == DType::f32) return *constant->data<float>();
  if (constant->dtype() == DType::u8) return *constant->data<std::uint8_t>();
  return constant->dtype() == DType::i8 ? std::optional<float>(*constant->data<std::int8_t>()) : std::nullopt;
}

std::optional<ElementWiseStep> conversion_step(const ir::Graph& graph, const ir::Node& node) {
  const bool quantises = node.op == "QuantizeLinear";
  const auto type_of = [&](ValueId value) { return graph.value(value).type.dtype; };
  const DType real = type_of(quantises ? node.inputs[0] : node.outputs[0]),
              narrow = type_of(quantises ? node.outputs[0] : node.inputs[0]);
  const AttributeReader reader(node, op_of(node));
  if (real != DType::f32 || type_of(node.inputs[1]) != DType::f32 || !is_byte(narrow) ||
      reader.integer("block_size") != 0)
    return std::nullopt;
  if (quantises && reader.integer("precision") != 0 &&
      reader.integer("precision") != static_cast<std::int64_t>(DType::f32))
    return std::nullopt;
  const std::optional<float> scale = number(graph, node, 1, std::nullopt), zero = number(graph, node, 2, 0.0f);
  if (!scale || !zero) return std::nullopt;
  return ElementWiseStep{find_element_wise_form(!quantises            ? "DequantizeLinear"
                                                : narrow == DType::u8 ? "QuantizeU8"
                                                                      : "QuantizeI8"),
                         {0, -1, -1},
                         {*scale, *zero}};
}

// Steps that dequantise the operands, add them and quantise the sum.
std::vector<ElementWiseStep> sum_steps(const ir::Graph& graph, const ir::Node& node) {
  const DType type = graph.value(node.outputs[0]).type.dtype;
  const auto conversion = [&](std::string_view name, std::size_t scale_input,
                              std::int64_t operand) -> std::optional<ElementWiseStep> {
    const std::optional<float> scale = number(graph, node, scale_input, std::nullopt),
                               zero = number(graph, node, scale_input + 1, 0.0f);
    return scale && zero
               ? std::optional(ElementWiseStep{find_element_wise_form(name), {operand, -1, -1}, {*scale, *zero}})
               : std::nullopt;
  };
  const auto inputs = static_cast<std::int64_t>(node.inputs.size());
  const auto a = conversion("DequantizeLinear", 1, 0), b = conversion("DequantizeLinear", 4, 3),
             y = conversion(type == DType::u8 ? "QuantizeU8" : "QuantizeI8", 6, inputs + 2);
  if (!is_byte(type) || !a || !b || !y) return {};
  return {*a, *b, {find_element_wise_form("Add"), {inputs, inputs + 1, -1}, {}}, *y};
}

// The step of a Cast to real numbers or bools, or nothing if a program cannot hold it.
std::optional<ElementWiseStep> cast_step(DType from, DType to) {
  if (from == DType::f32 && to == DType::boolean)
    return ElementWiseStep{find_element_wise_form("ToBool"), {0, -1, -1}, {}};
  if (to != DType::f32) return std::nullopt;
  if (is_byte(from)) return ElementWiseStep{find_element_wise_form("DequantizeLinear"), {0, -1, -1}, {1, 0}};
  const ElementWiseStep step{find_element_wise_form("ToReal"), {0, -1, -1}, {}};
  return takes(step, 0, from) ? std::optional(step) : std::nullopt;
}

std::optional<ElementWiseStep> unary_step(const ir::Graph& graph, const ir::Node& node) {
  ElementWiseStep step{find_element_wise_form(node.op), {0, -1, -1}, {}};
  const AttributeReader reader(node, op_of(node));
  if (node.op == "Clip") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::optional<float> low = number(graph, node, 1, -infinity), high = number(graph, node, 2, infinity);
    if (!low || !high) return std::nullopt;
    step.parameters = {*low, *high};
  } else if (node.op == "Gelu") {
    if (reader.text("approximate") == "tanh") step.form = find_element_wise_form("GeluTanh");
  } else if (step.form->kind == Kind::activation) {
    const std::span<const std::string_view> names = activation_parameters(node.op);
    for (std::size_t i = 0; i < names.size(); ++i) step.parameters[i] = reader.real(names[i]);
  }
  return step;
}

}  // namespace

const ElementWiseForm* find_element_wise_form(std::string_view name) {
  static const std::vector<ElementWiseForm> forms = all_forms();
  const auto found = std::ranges::find(forms, name, &ElementWiseForm::name);
  return found == forms.end() ? nullptr : &*found;
}

std::size_t ElementWiseStep::operand_count() const {
  switch (form->kind) {
    case Kind::constant:
      return 0;
    case Kind::choice:
      return 3;
    case Kind::binary:
    case Kind::comparison:
    case Kind::logic:
      return 2;
    default:
      return 1;
  }
}

DType result_type(const ElementWiseStep& step) {
  switch (step.form->kind) {
    case Kind::quantise:
      return step.form->name == "QuantizeU8" ? DType::u8 : DType::i8;
    case Kind::comparison:
    case Kind::test:
    case Kind::logic:
    case Kind::inverse:
      return DType::boolean;
    default:
      return DType::f32;
  }
}

bool takes(const ElementWiseStep& step, std::size_t operand, DType type) {
  switch (step.form->kind) {
    case Kind::dequantise:
      return is_byte(type);
    case Kind::logic:
    case Kind::inverse:
      return type == DType::boolean;
    case Kind::choice:
      return type == (operand == 0 ? DType::boolean : DType::f32);
    case Kind::widen:
      return type == DType::boolean || type == DType::i32 || type == DType::i64;
    default:
      return type == DType::f32;
  }
}

std::vector<ElementWiseStep> element_wise_steps(const AttributeReader& reader) {
  const std::vector<std::string>& names = reader.texts("steps");
  const std::vector<std::int64_t>& operands = reader.integers("operands");
  const std::vector<float>& parameters = reader.reals("parameters");
  const std::size_t each = names.empty() ? 0 : operands.size() / names.size();
  std::vector<ElementWiseStep> steps;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ElementWiseStep step{find_element_wise_form(names[i]), {-1, -1, -1}, {parameters[2 * i], parameters[2 * i + 1]}};
    std::copy_n(operands.begin() + static_cast<std::ptrdiff_t>(each * i), each, step.operands.begin());
    steps.push_back(step);
  }
  return steps;
}

ir::Attributes element_wise_attributes(const std::vector<ElementWiseStep>& steps) {
  std::vector<std::string> names;
  std::vector<std::int64_t> operands;
  std::vector<float> parameters;
  // Two operands per step unless a step takes three.
  const std::ptrdiff_t each =
      std::ranges::any_of(steps, [](const ElementWiseStep& step) { return step.operand_count() > 2; }) ? 3 : 2;
  for (const ElementWiseStep& step : steps) {
    names.emplace_back(step.form->name);
    operands.insert(operands.end(), step.operands.begin(), step.operands.begin() + each);
    parameters.insert(parameters.end(), step.parameters.begin(), step.parameters.end());
  }
  return {{"steps", std::move(names)}, {"operands", std::move(operands)}, {"parameters", std::move(parameters)}};
}

std::vector<ElementWiseStep> element_wise_steps(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1 || !node.outputs[0].valid() || node.inputs.empty() || !node.inputs[0].valid()) return {};
  if (node.op == element_wise.name) return element_wise_steps(AttributeReader(node, element_wise));
  if (node.op == "com.microsoft::QLinearAdd") return sum_steps(graph, node);
  const auto list_of = [](const std::optional<ElementWiseStep>& step) {
    return step ? std::vector{*step} : std::vector<ElementWiseStep>{};
  };
  if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") return list_of(conversion_step(graph, node));
  const auto type_of = [&](ValueId value) { return graph.value(value).type.dtype; };
  if (node.op == "Cast") return list_of(cast_step(type_of(node.inputs[0]), type_of(node.outputs[0])));
  const ElementWiseForm* form = find_element_wise_form(node.op);
  if (form == nullptr || form->kind == Kind::constant) return {};
  ElementWiseStep step{form, {0, 1, 2}, {}};
  if (node.inputs.size() < step.operand_count() || type_of(node.outputs[0]) != result_type(step)) return {};
  for (std::size_t i = 0; i < step.operand_count(); ++i) {
    if (!node.inputs[i].valid() || !takes(step, i, type_of(node.inputs[i]))) return {};
  }
  if (step.operand_count() == 1) return list_of(unary_step(graph, node));
  if (node.op == "PRelu" && graph.is_constant(node.inputs[0]))
    return {};  // a number loses its rank, to which the slope broadcasts
  if (node.inputs.size() != step.operand_count()) return {};
  std::fill(step.operands.begin() + static_cast<std::ptrdiff_t>(step.operand_count()), step.operands.end(), -1);
  return {step};
}

const OpDef element_wise{
    .name = "tessera::ElementWise",
    .since = 1,
    .inputs = {{"X", {DType::f32, DType::u8, DType::i8, DType::boolean, DType::i32, DType::i64}, "", variadic}},
    .outputs = {{"Y", {DType::f32, DType::u8, DType::i8, DType::boolean}, ""}},
    .attributes = {{"steps", AttributeKind::texts, std::nullopt, true},
                   {"operands", AttributeKind::integers, std::nullopt, true},
                   {"parameters", AttributeKind::reals, std::nullopt, true}},
    .infer = infer_element_wise_program,
    .operations = element_wise_program_operations,
    .decompose = decompose_element_wise_program,
    .element_wise = ElementWise::broadcasting,
};

}  // namespace tessera::ops
