#include "support/hostile_call.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/text.h"
#include "ir/text.h"
#include "ops/core/infer.h"
#include "runtime/run/evaluate.h"
#include "support/guarded.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::test {
namespace {

std::string title(const OpCall& call) {
  std::string text = call.op + "(";
  for (const Value& input : call.inputs) {
    const bool is_tensor = input.is_tensor();
    text += (text.back() == '(' ? "" : ", ") +
            (is_tensor ? std::string(name_of(input.tensor().dtype())) + to_string(input.tensor().shape())
                       : std::string("none"));
  }
  return text + ")\n" + base::shortened(ir::print(graph_of(call, Operands::unshaped_inputs)), 600);
}

Tensor run_once(const OpCall& call, Operands operands, const std::string& device) {
  ir::Graph graph = graph_of(call, operands);
  ops::infer_graph(graph);  // as reading a file does
  const Model model(std::make_shared<const ir::Graph>(std::move(graph)));
  SessionOptions options;
  options.device = device;
  options.threads = 1;
  options.memory_limit_bytes = std::int64_t{256} << 20;
  Session session(model, options);
  NamedValues inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (operands != Operands::constants && call.inputs[i].has_value())
      inputs["input" + std::to_string(i)] = call.inputs[i];
  }
  const NamedValues outputs = session.run(inputs);
  const Value& first = outputs.begin()->second;
  return first.is_tensor() ? first.tensor() : Tensor();
}

// Calls visit(way, result or null, error or null) for every way; whatever visit throws ends it.
template <typename Visit>
void run_everywhere(const OpCall& call, Visit visit) {
  static constexpr std::pair<Operands, const char*> ways[] = {{Operands::constants, "constants"},
                                                              {Operands::shaped_inputs, "inputs"},
                                                              {Operands::unshaped_inputs, "inputs of unknown shape"}};
  for (const char* device : {"cpu", "reference"}) {
    for (const auto& [operands, name] : ways) {
      const std::string way = std::string(name) + " on " + device;
      std::optional<Tensor> result;
      std::optional<Error> refused;
      try {
        result = run_once(call, operands, device);
      } catch (const Error& error) {
        refused = error;
      }
      visit(way, result ? &*result : nullptr, refused ? &*refused : nullptr);
    }
  }
}

}  // namespace

ir::Graph graph_of(const OpCall& call, Operands operands) {
  ir::Graph graph;
  ir::Node node{call.op, "under_test", {}, {}, call.attributes, 0};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Value& input = call.inputs[i];
    const std::string name = "input" + std::to_string(i);
    if (!input.has_value()) node.inputs.push_back({});
    else if (!input.is_tensor()) node.inputs.push_back(graph.add_input(name, runtime::type_of(input)));
    else if (operands == Operands::constants) node.inputs.push_back(graph.add_constant(input.tensor(), name));
    else if (operands == Operands::shaped_inputs)
      node.inputs.push_back(
          graph.add_input(name, ir::ValueType::tensor(input.tensor().dtype(), input.tensor().shape())));
    else node.inputs.push_back(graph.add_input(name, ir::ValueType::tensor(input.tensor().dtype())));
  }
  for (std::size_t i = 0; i < call.outputs; ++i) {
    node.outputs.push_back(graph.add_value(std::to_string(i)));
    graph.add_output(node.outputs.back());
  }
  graph.add_node(std::move(node));
  return graph;
}

void expect_call_refused(const OpCall& call, const std::string& part) {
  const Outcome outcome = expect_harmless(title(call), [&] {
    run_everywhere(call, [&](const std::string& way, const Tensor*, const Error* error) {
      if (error == nullptr) throw std::runtime_error(way + ": no error");
      if (std::string(error->what()).find(part) == std::string::npos)
        throw std::runtime_error(way + ": " + error->what());
    });
  });
}

void expect_call_gives(const OpCall& call, const Tensor& expected) {
  expect_harmless(title(call), [&] {
    run_everywhere(call, [&](const std::string& way, const Tensor* result, const Error* error) {
      if (error != nullptr) throw std::runtime_error(way + ": " + error->what());
      if (!identical(*result, expected)) throw std::runtime_error(way + ": another result than expected");
    });
  });
}

void expect_call_harmless(const OpCall& call) {
  expect_harmless(title(call), [&] { run_everywhere(call, [](const std::string&, const Tensor*, const Error*) {}); });
}

}  // namespace tessera::test
