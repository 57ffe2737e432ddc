// Every operator with every element type that its signature allows, on the devices that compute, from the examples of
// support/op_examples.h; and with types that it does not allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "backends/host/numeric.h"
#include "cost/work.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "support/hostile_call.h"
#include "support/op_examples.h"
#include "support/run_op.h"
#include "support/tolerance.h"
#include "support/typed_example.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::test::element_types_test {
namespace {

using ops::OpDef;
using ops::Parameter;
using ops::TypeSet;

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

std::string error_of(const OpCall& call, const std::string& device) {
  try {
    run(call, device);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Element types that parameters had, by name.
using Seen = std::map<std::string_view, std::set<DType>>;

void expect_signature(const OpDef& op, const NamedValues& outputs, Seen& seen) {
  for (const auto& [name, value] : outputs) {
    const Parameter& output = op.outputs[std::min(static_cast<std::size_t>(std::stoi(name)), op.outputs.size() - 1)];
    const DType type = element_type(value);
    seen[output.name].insert(type);
    EXPECT_TRUE(output.any_kind || output.types.contains(type))
        << "output '" << output.name << "' is " << name_of(type);
  }
}

// The type in which the same call is exact, or nearly so.
std::optional<DType> wider(DType type) {
  switch (type) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
      return DType::f64;
    case DType::i8:
    case DType::i16:
    case DType::i32:
      return DType::i64;
    default:
      return std::nullopt;
  }
}

// Equal numbers, but for roundings in `narrow`, whatever their types.
void expect_like_wide(const Value& actual, const Value& expected, DType narrow) {
  if (!expected.is_tensor() || expected.tensor().dtype() == DType::string || is_complex(expected.tensor().dtype()))
    return;
  Tensor widened(DType::f64, actual.tensor().shape()), exact(DType::f64, expected.tensor().shape());
  backends::host::write(backends::host::read<double>(actual.tensor()), widened);
  backends::host::write(backends::host::read<double>(expected.tensor()), exact);
  EXPECT_TRUE(close_to(widened, exact, Tolerance::epsilons(narrow, 2)));
}

void expect_like_wide(const OpCall& call, const OpCall& wide, DType narrow) {
  try {
    const NamedValues actual = run(call, "reference"), expected = run(wide, "reference");
    for (const auto& [output, value] : expected) {
      SCOPED_TRACE("against a wider type, output " + output);
      expect_like_wide(actual.at(output), value, narrow);
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

// Planned ahead, folded, and looked at when it runs.
constexpr std::pair<Operands, const char*> kWays[] = {{Operands::shaped_inputs, "inputs"},
                                                      {Operands::constants, "constants"},
                                                      {Operands::unshaped_inputs, "inputs of unknown shape"}};

void expect_runs(const OpDef& op, const OpCall& call, std::span<const std::pair<Operands, const char*>> ways,
                 Seen& outputs) {
  const char* way = "reference";
  try {
    const NamedValues expected = run(call, "reference");
    expect_signature(op, expected, outputs);
    for (const auto& [operands, name] : ways) {
      way = name;
      const NamedValues actual = run(call, "cpu", operands);
      for (const auto& [output, value] : expected)
        EXPECT_TRUE(agree(actual.at(output), value)) << way << ", output " << output;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << way << ": " << error.what();
  }
}

// Every type that a parameter may have, it had in some example. What an empty sequence holds is not to be seen.
void expect_covered(const std::vector<Parameter>& parameters, const Seen& seen) {
  for (const Parameter& parameter : parameters) {
    const auto had = seen.find(parameter.name);
    if (had != seen.end() && had->second == std::set{DType::undefined}) continue;
    std::string missing;
    for (const DType type : listed(parameter.types)) {
      if (had == seen.end() || !had->second.contains(type)) missing += std::string(" ") + std::string(name_of(type));
    }
    EXPECT_EQ(missing, "") << "no example has these types of '" << parameter.name << "'";
  }
}

class ElementTypes : public testing::TestWithParam<const OpDef*> {};

// Whether the example says that its operator refuses the call.
bool is_refused(const TypedExample& typed, const Refusal& refusal, const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (typed.parameter_at(i).name == refusal.parameter && call.inputs[i].has_value() &&
        refusal.types.contains(element_type(call.inputs[i])))
      return true;
  }
  return false;
}

TEST_P(ElementTypes, AllowedOnesRunEverywhereAlike) {
  const OpDef& op = *GetParam();
  Seen inputs, outputs;
  for (const OpExample& example : op_examples()) {
    if (example.op != op.name) continue;
    const TypedExample typed(op, example);
    const auto visit = [&](const ChosenTypes& chosen) {
      const OpCall call = typed.call(chosen);
      SCOPED_TRACE(title(call));
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (call.inputs[i].has_value()) inputs[typed.parameter_at(i).name].insert(element_type(call.inputs[i]));
      }
      const bool is_pair = chosen.size() > 1;
      if (!is_refused(typed, example.refuses, call))
        return expect_runs(op, call, std::span(kWays).first(is_pair ? 1 : std::size(kWays)), outputs);
      for (const char* device : {"cpu", "reference"})
        EXPECT_NE(error_of(call, device).find(example.refuses.message), std::string::npos)
            << device << ": " << error_of(call, device);
    };
    if (typed.groups().empty()) visit({});
    for (const auto& [name, group] : typed.groups()) {
      for (const DType type : listed(group.types)) {
        visit({{name, type}});
        for (const auto& [other, others] : typed.groups()) {
          for (const DType second : listed(others.types)) {
            if (name < other) visit({{name, type}, {other, second}});
          }
        }
      }
    }
  }
  expect_covered(op.inputs, inputs);
  expect_covered(op.outputs, outputs);
}

TEST(ElementTypes, NarrowOnesAgreeWithWideOnes) {
  for (const OpExample& example : op_examples()) {
    const TypedExample typed(*ops::find_op(example.op), example);
    for (const auto& [name, group] : typed.groups()) {
      for (const DType narrow : listed(group.types)) {
        const std::optional<DType> wide = wider(narrow);
        if (!wide || !group.types.contains(*wide)) continue;
        const OpCall call = typed.call({{name, narrow}});
        SCOPED_TRACE(title(call));
        if (!is_refused(typed, example.refuses, call)) expect_like_wide(call, typed.call({{name, *wide}}), narrow);
      }
    }
  }
}

// A file may leave all outputs out; nothing may look at a result that is not there.
TEST(ElementTypes, NodesWithoutOutputsAreInferredAndCounted) {
  for (const OpExample& example : op_examples()) {
    OpCall call = TypedExample(*ops::find_op(example.op), example).call({});
    call.outputs = 0;
    for (const auto& [operands, way] : kWays) {
      SCOPED_TRACE(title(call) + ", " + way);
      ir::Graph graph = graph_of(call, operands);
      try {
        ops::infer_graph(graph);
        EXPECT_LE(cost::work_of(graph).size(), 1u);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::invalid_model)
            << error.what();  // as with outputs: some types do not go together
      }
    }
  }
}

TEST(ElementTypes, OthersAreRefused) {
  std::set<std::pair<std::string_view, std::string_view>> done;
  for (const OpExample& example : op_examples()) {
    const OpDef& op = *ops::find_op(example.op);
    const TypedExample typed(op, example);
    const OpCall usual = typed.call({});
    for (std::size_t i = 0; i < usual.inputs.size(); ++i) {
      const Parameter& parameter = typed.parameter_at(i);
      if (parameter.any_kind || !usual.inputs[i].is_tensor() || !done.insert({op.name, parameter.name}).second)
        continue;
      for (const DType type : kTypes) {
        if (parameter.types.contains(type)) continue;
        OpCall call = usual;
        call.inputs[i] = Tensor(type, usual.inputs[i].tensor().shape());
        const std::string said = error_of(call, "reference");
        EXPECT_NE(said.find(fmt::format("input '{}' is {}, expected one of: ", parameter.name, name_of(type))),
                  std::string::npos)
            << title(call) << " said: " << said;
      }
    }
  }
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name(info.param->name);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, ElementTypes, testing::ValuesIn(ops::all_ops().begin(), ops::all_ops().end()), test_name);

}  // namespace
}  // namespace tessera::test::element_types_test
