#include "support/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/host/numeric.h"
#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test {
namespace {

using backends::host::read;
using ir::ValueId;

std::string input_name(std::size_t i) {
  return "x" + std::to_string(i);
}

struct Example {
  std::shared_ptr<ir::Graph> graph = std::make_shared<ir::Graph>();
  std::vector<std::size_t> differentiable;  // inputs of the call
};

ir::ValueType type_of(const Tensor& tensor, std::size_t input, bool symbolic) {
  ir::Dims dims = ir::to_dims(tensor.shape());
  for (std::size_t i = 0; symbolic && i < dims.size(); ++i)
    dims[i] = ir::Dim::symbol(input_name(input) + "_" + std::to_string(i));
  return ir::ValueType::tensor(tensor.dtype(), std::move(dims));
}

std::vector<Value> run(Session& session, const ir::Graph& graph, const NamedValues& inputs) {
  NamedValues outputs = session.run(inputs, RunOptions{.seed = 0});  // equal draws beside a difference
  std::vector<Value> ordered;
  for (ValueId output : graph.outputs()) ordered.push_back(outputs.at(graph.value(output).name));
  return ordered;
}

// The outputs of the call, by a graph of it alone (run_op runs no subgraphs).
std::vector<Value> results_of(const OpCall& call) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  std::vector<ValueId> inputs;
  for (const Value& input : call.inputs)
    inputs.push_back(input.has_value() ? graph->add_constant(input.tensor()) : ValueId{});
  for (ValueId output : builder.add_multi(call.op, inputs, call.outputs, call.attributes)) graph->add_output(output);
  Session session(Model(graph), {.device = "reference"});
  return run(session, *graph, {});
}

// Outputs: the weighted sum, and with `gradients` those of the differentiable inputs.
Example make_example(const OpCall& call, const std::vector<Value>& results, const GradientCheck& options, bool symbolic,
                     bool gradients) {
  Example example;
  ir::Graph& graph = *example.graph;
  ops::GraphBuilder builder(graph);
  std::vector<ValueId> inputs, xs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].has_value()) {
      inputs.emplace_back();
    } else if (const Tensor& tensor = call.inputs[i].tensor();
               is_float(tensor.dtype()) && (options.constants >> i & 1) == 0) {
      inputs.push_back(graph.add_input(input_name(i), type_of(tensor, i, symbolic)));
      xs.push_back(inputs.back());
      example.differentiable.push_back(i);
    } else {
      inputs.push_back(graph.add_constant(tensor));
    }
  }
  const std::vector<ValueId> outputs = builder.add_multi(call.op, inputs, call.outputs, call.attributes);
  ValueId sum;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& result = results[i].tensor();
    if (!is_float(result.dtype())) continue;
    const ValueId weights = graph.add_constant(random_tensor(result.dtype(), result.shape(), 100 + i, -1, 1));
    const ValueId part = builder.add(
        "Cast",
        {builder.add("ReduceSum", {builder.add("Mul", {outputs[i], weights})}, {{"keepdims", std::int64_t{0}}})},
        {{"to", static_cast<std::int64_t>(DType::f64)}});
    sum = sum.valid() ? builder.add("Add", {sum, part}) : part;
  }
  graph.add_output(sum);
  if (gradients) {
    for (ValueId gradient : passes::build_gradients(graph, sum, xs)) graph.add_output(gradient);
  }
  return example;
}

void check(const OpCall& call, const GradientCheck& options, bool symbolic) {
  const std::vector<Value> results = results_of(call);
  const Example forward = make_example(call, results, options, false, false),
                backward = make_example(call, results, options, symbolic, true);
  Session values(Model(forward.graph), {.device = "reference"}),
      gradients(Model(backward.graph), {.device = "reference"});
  NamedValues inputs;
  for (std::size_t i : forward.differentiable) inputs[input_name(i)] = call.inputs[i];
  const std::vector<Value> stated = run(gradients, *backward.graph, inputs);
  for (std::size_t k = 0; k < forward.differentiable.size(); ++k) {
    const std::size_t i = forward.differentiable[k];
    const Tensor& x = call.inputs[i].tensor();
    const Tensor& gradient = stated[k + 1].tensor();
    ASSERT_EQ(gradient.shape(), x.shape()) << call.op << " input " << i;
    ASSERT_EQ(gradient.dtype(), x.dtype()) << call.op << " input " << i;
    const std::vector<double> exact = read<double>(x), found = read<double>(gradient);
    for (std::size_t e = 0; e < exact.size(); ++e) {
      double numeric = 0;
      double distance = 0;
      for (const int sign : {1, -1}) {
        std::vector<double> moved = exact;
        moved[e] += sign * options.step;
        Tensor changed(x.dtype(), x.shape());
        backends::host::write(moved, changed);
        distance += sign * read<double>(changed)[e];  // as rounded
        NamedValues given = inputs;
        given[input_name(i)] = changed;
        numeric += sign * *run(values, *forward.graph, given)[0].tensor().data<double>();
      }
      numeric /= distance;
      EXPECT_LE(std::fabs(found[e] - numeric), options.tolerance * (1 + std::fabs(numeric)))
          << call.op << " input " << i << " element " << e << ": stated " << found[e] << ", numeric " << numeric;
    }
  }
}

}  // namespace

void expect_gradient(const OpCall& call, const GradientCheck& options) {
  for (const bool symbolic : {false, true}) {
    if (symbolic && !options.symbolic) continue;
    SCOPED_TRACE(call.op + (symbolic ? " with symbolic shapes" : ""));
    try {
      check(call, options, symbolic);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace tessera::test
