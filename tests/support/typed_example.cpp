#include "support/typed_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "support/tolerance.h"

namespace tessera::test {
namespace {

using ops::Parameter;
using ops::TypeSet;

TypeSet both(TypeSet a, TypeSet b) {
  return a.without(ops::types::all.without(b));
}

bool is_fixed(const ExampleOperand& operand) {
  return operand.kind == Value::Kind::none ||
         (operand.kind == Value::Kind::tensor && operand.dtype != DType::undefined);
}

DType usual(TypeSet types) {
  for (const DType type : {DType::f32, DType::i64}) {
    if (types.contains(type)) return type;
  }
  return listed(types).at(0);
}

}  // namespace

std::vector<DType> listed(TypeSet set) {
  std::vector<DType> types;
  std::copy_if(kTypes.begin(), kTypes.end(), std::back_inserter(types), [&](DType type) { return set.contains(type); });
  return types;
}

TypedExample::TypedExample(const ops::OpDef& op, const OpExample& example) : op_(op), example_(example) {
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    if (!is_fixed(example.operands[i])) add(parameter_at(i));
  }
  for (const Parameter& output : op.outputs) {
    if (output.name == example.attributes_follow) add(output);
  }
}

OpCall TypedExample::call(const ChosenTypes& chosen) const {
  const auto type_of = [&](const Parameter& parameter) {
    const auto found = chosen.find(key_of(parameter));
    return found != chosen.end() ? found->second : usual(groups_.at(key_of(parameter)).types);
  };
  OpCall call{std::string(op_.name), {}, example_.attributes, example_.outputs};
  for (std::size_t i = 0; i < example_.operands.size(); ++i) {
    const ExampleOperand& operand = example_.operands[i];
    call.inputs.push_back(make_value(operand, is_fixed(operand) ? operand.dtype : type_of(parameter_at(i))));
  }
  for (const std::vector<Parameter>* parameters : {&op_.inputs, &op_.outputs}) {
    for (const Parameter& parameter : *parameters) {
      if (parameter.name == example_.attributes_follow) call.attributes.merge(example_.follow(type_of(parameter)));
    }
  }
  return call;
}

std::string_view TypedExample::key_of(const Parameter& parameter) const {
  const bool tied =
      std::find(example_.together.begin(), example_.together.end(), parameter.name) != example_.together.end();
  if (tied) return "together";
  for (const std::string_view name : example_.together) {
    for (const std::vector<Parameter>* parameters : {&op_.inputs, &op_.outputs}) {
      for (const Parameter& other : *parameters) {
        if (other.name == name && !parameter.variable.empty() && other.variable == parameter.variable)
          return "together";
      }
    }
  }
  return parameter.variable.empty() ? parameter.name : parameter.variable;
}

void TypedExample::add(const Parameter& parameter) {
  TypeGroup& group = groups_[key_of(parameter)];
  group.parameters.insert(parameter.name);
  if (!parameter.any_kind) group.types = both(group.types, parameter.types);
  for (const auto& [name, narrowed] : example_.only) {
    if (name == parameter.name) group.types = both(group.types, narrowed);
  }
}

DType element_type(const Value& value) {
  return value.is_tensor()                                ? value.tensor().dtype()
         : !value.has_value() || value.elements().empty() ? DType::undefined
                                                          : element_type(value.elements()[0]);
}

std::string title(const OpCall& call) {
  std::string text = call.op + ":";
  for (const Value& input : call.inputs)
    text += input.has_value() ? fmt::format(" {}{}", name_of(element_type(input)),
                                            input.is_tensor() ? to_string(input.tensor().shape()) : "s")
                              : " none";
  for (const auto& [name, attribute] : call.attributes) {
    if (ir::kind_of(attribute) == ir::AttributeKind::integer)
      text += fmt::format(" {}={}", name, std::get<std::int64_t>(attribute));
  }
  return text;
}

testing::AssertionResult agree(const Value& actual, const Value& expected) {
  if (actual.kind() != expected.kind()) return testing::AssertionFailure() << "another kind of value";
  if (!expected.has_value()) return testing::AssertionSuccess();
  if (expected.is_tensor())
    return close_to(actual.tensor(), expected.tensor(), Tolerance::epsilons(expected.tensor().dtype(), 4));
  if (expected.kind() == Value::Kind::map && !identical(actual.keys(), expected.keys()))
    return testing::AssertionFailure() << "other keys";
  if (actual.elements().size() != expected.elements().size())
    return testing::AssertionFailure() << actual.elements().size() << " elements, expected "
                                       << expected.elements().size();
  for (std::size_t i = 0; i < expected.elements().size(); ++i) {
    if (const auto same = agree(actual.elements()[i], expected.elements()[i]); !same) return same;
  }
  return testing::AssertionSuccess();
}

}  // namespace tessera::test
