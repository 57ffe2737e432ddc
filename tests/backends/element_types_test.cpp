// Every operator with every element type that its signature allows, on the devices that compute, from the examples of
// support/op_examples.h; and with types that it does not allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ops/infer.h"
#include "ops/op_table.h"
#include "support/hostile_call.h"
#include "support/op_examples.h"
#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::test {
namespace {

using ops::OpDef;
using ops::Parameter;
using ops::TypeSet;

constexpr auto kTypes = [] {
  std::array<DType, kDTypeCount - 1> types{};
  for (int i = 1; i < kDTypeCount; ++i) types[static_cast<std::size_t>(i) - 1] = static_cast<DType>(i);
  return types;
}();

std::vector<DType> listed(TypeSet set) {
  std::vector<DType> types;
  std::copy_if(kTypes.begin(), kTypes.end(), std::back_inserter(types), [&](DType type) { return set.contains(type); });
  return types;
}
TypeSet both(TypeSet a, TypeSet b) { return a.without(ops::types::all.without(b)); }

// Parameters of an example that have the same type: those of one type variable, and those that the example ties together.
struct Group {
  TypeSet types = ops::types::all;
  std::set<std::string_view> parameters;
};

class Example {
 public:
  Example(const OpDef& op, const OpExample& example) : op_(op), example_(example) {
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
      if (!is_fixed(example.operands[i])) add(parameter_at(i));
    }
    for (const Parameter& output : op.outputs) {
      if (output.name == example.attributes_follow) add(output);
    }
  }

  const std::map<std::string_view, Group>& groups() const { return groups_; }
  const Parameter& parameter_at(std::size_t i) const { return op_.inputs[std::min(i, op_.inputs.size() - 1)]; }

  // The call with group `varied` in this type, and every other in the first of f32, i64 and those that it allows.
  OpCall call(std::string_view varied, DType type) const {
    const auto type_of = [&](const Parameter& parameter) { return key_of(parameter) == varied ? type : usual(groups_.at(key_of(parameter)).types); };
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

 private:
  static bool is_fixed(const ExampleOperand& operand) {
    return operand.kind == Value::Kind::none || (operand.kind == Value::Kind::tensor && operand.dtype != DType::undefined);
  }
  std::string_view key_of(const Parameter& parameter) const {
    const bool tied = std::find(example_.together.begin(), example_.together.end(), parameter.name) != example_.together.end();
    if (tied) return "together";
    for (const std::string_view name : example_.together) {
      for (const std::vector<Parameter>* parameters : {&op_.inputs, &op_.outputs}) {
        for (const Parameter& other : *parameters) {
          if (other.name == name && !parameter.variable.empty() && other.variable == parameter.variable) return "together";
        }
      }
    }
    return parameter.variable.empty() ? parameter.name : parameter.variable;
  }
  static DType usual(TypeSet types) {
    for (const DType type : {DType::f32, DType::i64}) {
      if (types.contains(type)) return type;
    }
    return listed(types).at(0);
  }
  void add(const Parameter& parameter) {
    Group& group = groups_[key_of(parameter)];
    group.parameters.insert(parameter.name);
    if (!parameter.any_kind) group.types = both(group.types, parameter.types);
    for (const auto& [name, narrowed] : example_.only) {
      if (name == parameter.name) group.types = both(group.types, narrowed);
    }
  }

  const OpDef& op_;
  const OpExample& example_;
  std::map<std::string_view, Group> groups_;
};

NamedValues run(const OpCall& call, const std::string& device, Operands operands = Operands::shaped_inputs) {
  ir::Graph graph = graph_of(call, operands);
  ops::infer_graph(graph);  // as reading a file does
  const Model model(std::make_shared<const ir::Graph>(std::move(graph)));
  SessionOptions options;
  options.device = device;
  options.threads = 1;
  Session session(model, options);
  NamedValues inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool given = call.inputs[i].has_value() && (operands != Operands::constants || !call.inputs[i].is_tensor());
    if (given) inputs["input" + std::to_string(i)] = call.inputs[i];
  }
  return session.run(inputs);
}

// Some roundings apart: kernels for the CPU sum in another order, and compute in float32 what the reference computes in float64.
testing::AssertionResult agree(const Value& actual, const Value& expected) {
  if (actual.kind() != expected.kind()) return testing::AssertionFailure() << "another kind of value";
  if (!expected.has_value()) return testing::AssertionSuccess();
  if (expected.is_tensor()) return close_to(actual.tensor(), expected.tensor(), Tolerance::epsilons(expected.tensor().dtype(), 8));
  if (expected.kind() == Value::Kind::map && !identical(actual.keys(), expected.keys())) return testing::AssertionFailure() << "other keys";
  if (actual.elements().size() != expected.elements().size()) return testing::AssertionFailure() << actual.elements().size() << " elements, expected " << expected.elements().size();
  for (std::size_t i = 0; i < expected.elements().size(); ++i) {
    if (const auto same = agree(actual.elements()[i], expected.elements()[i]); !same) return same;
  }
  return testing::AssertionSuccess();
}

std::string error_of(const OpCall& call, const std::string& device) {
  try {
    run(call, device);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_signature(const OpDef& op, const NamedValues& outputs) {
  for (const auto& [name, value] : outputs) {
    const Parameter& output = op.outputs[std::min(static_cast<std::size_t>(std::stoi(name)), op.outputs.size() - 1)];
    if (value.is_tensor() && !output.any_kind) EXPECT_TRUE(output.types.contains(value.tensor().dtype())) << "output '" << output.name << "' is " << name_of(value.tensor().dtype());
  }
}

// Planned ahead, folded, and looked at when it runs.
void expect_runs(const OpDef& op, const OpCall& call) {
  const char* way = "reference";
  try {
    const NamedValues expected = run(call, "reference");
    expect_signature(op, expected);
    for (const auto& [operands, name] : {std::pair{Operands::shaped_inputs, "inputs"}, {Operands::constants, "constants"}, {Operands::unshaped_inputs, "inputs of unknown shape"}}) {
      way = name;
      const NamedValues actual = run(call, "cpu", operands);
      for (const auto& [output, value] : expected) EXPECT_TRUE(agree(actual.at(output), value)) << way << ", output " << output;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << way << ": " << error.what();
  }
}

DType element_type(const Value& value) {
  return value.is_tensor() ? value.tensor().dtype() : value.elements().empty() ? DType::undefined : element_type(value.elements()[0]);
}

std::string title(const OpCall& call, std::string_view varied, DType type) {
  std::string text = fmt::format("{} with {} = {}:", call.op, varied, name_of(type));
  for (const Value& input : call.inputs) text += input.has_value() ? fmt::format(" {}{}", name_of(element_type(input)), input.is_tensor() ? to_string(input.tensor().shape()) : "s") : " none";
  return text;
}

// Types that this parameter may have and has in no example, by the types of the operands that it had.
void expect_covered(const OpDef& op, const std::map<std::string_view, std::set<DType>>& seen) {
  for (const Parameter& parameter : op.inputs) {
    const auto had = seen.find(parameter.name);
    std::string missing;
    for (const DType type : listed(parameter.types)) {
      if (had == seen.end() || !had->second.contains(type)) missing += std::string(" ") + std::string(name_of(type));
    }
    EXPECT_EQ(missing, "") << "no example has these types of input '" << parameter.name << "'";
  }
}

class ElementTypes : public testing::TestWithParam<const OpDef*> {};

TEST_P(ElementTypes, AllowedOnesRunEverywhereAlike) {
  const OpDef& op = *GetParam();
  std::map<std::string_view, std::set<DType>> seen;
  for (const OpExample& example : op_examples()) {
    if (example.op != op.name) continue;
    const Example typed(op, example);
    const auto visit = [&](std::string_view varied, DType type) {
      const OpCall call = typed.call(varied, type);
      SCOPED_TRACE(title(call, varied, type));
      const Refusal& refusal = example.refuses;
      bool refused = false;
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (!call.inputs[i].has_value()) continue;
        const std::string_view name = typed.parameter_at(i).name;
        seen[name].insert(element_type(call.inputs[i]));
        refused = refused || (name == refusal.parameter && refusal.types.contains(element_type(call.inputs[i])));
      }
      if (!refused) return expect_runs(op, call);
      for (const char* device : {"cpu", "reference"}) EXPECT_NE(error_of(call, device).find(refusal.message), std::string::npos) << device << ": " << error_of(call, device);
    };
    if (typed.groups().empty()) visit("", DType::undefined);
    for (const auto& [name, group] : typed.groups()) {
      for (const DType type : listed(group.types)) visit(name, type);
    }
  }
  expect_covered(op, seen);
}

TEST_P(ElementTypes, OthersAreRefused) {
  const OpDef& op = *GetParam();
  std::set<std::string_view> done;
  for (const OpExample& example : op_examples()) {
    if (example.op != op.name) continue;
    const Example typed(op, example);
    for (const auto& [name, group] : typed.groups()) {
      const OpCall usual = typed.call("", DType::undefined);
      for (std::size_t i = 0; i < usual.inputs.size(); ++i) {
        const Parameter& parameter = typed.parameter_at(i);
        if (!group.parameters.contains(parameter.name) || parameter.any_kind || !usual.inputs[i].is_tensor() || !done.insert(parameter.name).second) continue;
        for (const DType type : kTypes) {
          if (parameter.types.contains(type)) continue;
          OpCall call = usual;
          call.inputs[i] = Tensor(type, usual.inputs[i].tensor().shape());
          const std::string said = error_of(call, "reference");
          EXPECT_NE(said.find(fmt::format("input '{}' is {}, expected one of: ", parameter.name, name_of(type))), std::string::npos) << said;
        }
      }
    }
  }
}

TEST(ElementTypes, EveryOperatorHasAnExampleAndEveryExampleAnOperator) {
  std::set<std::string_view> names;
  for (const OpExample& example : op_examples()) {
    names.insert(example.op);
    EXPECT_NE(ops::find_op(example.op), nullptr) << example.op;
  }
  for (const OpDef* op : ops::all_ops()) EXPECT_TRUE(names.contains(op->name)) << op->name;
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name(info.param->name);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, ElementTypes, testing::ValuesIn(ops::all_ops().begin(), ops::all_ops().end()), test_name);

}  // namespace
}  // namespace tessera::test
