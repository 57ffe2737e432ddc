#include "passes/training/differentiate_control_flow.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ir/inline.h"
#include "ops/core/builder.h"
#include "ops/core/control_flow.h"
#include "ops/core/infer.h"
#include "ops/core/shape_arguments.h"
#include "ops/op_table.h"
#include "passes/simplify/decompose_composites.h"
#include "passes/training/differentiate.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr std::int64_t kMostNodes = 20'000;

std::span<const ValueId> captures_of(const ir::Node& node) {
  return std::span(node.inputs).subspan(node.formal_inputs());
}

const ir::Graph& subgraph_of(const ir::Node& node, const std::string& name) {
  return *std::get<ir::SubgraphPointer>(node.attributes.at(name));
}

std::optional<bool> constant_condition(const ir::Graph& graph, ValueId id) {
  const Tensor* value = graph.constant(id);
  if (value == nullptr || value->dtype() != DType::boolean || value->elements() != 1) return std::nullopt;
  return *value->data<bool>();
}

// The values of all iterations stacked along an axis.
ValueId stacked(ops::GraphBuilder& builder, std::vector<ValueId> values, std::int64_t axis, bool backwards) {
  if (backwards) std::reverse(values.begin(), values.end());
  for (ValueId& value : values) value = builder.add("Unsqueeze", {value, builder.integers({axis})});
  return builder.add("Concat", std::move(values), {{"axis", axis}});
}

// Inlines a body and infers its types, which nodes built on its values need.
std::vector<ValueId> inlined(ir::Graph& graph, const ir::Graph& body, std::span<const ValueId> arguments) {
  const std::size_t before = graph.order().size();
  std::vector<ValueId> results = ir::append_inlined(graph, body, arguments);
  const std::vector<NodeId> order = graph.order();
  for (std::size_t i = before; i < order.size(); ++i) ops::infer_node_in_place(graph, order[i]);
  return results;
}

std::string unroll_scan(ir::Graph& graph, NodeId id) {
  const ir::Node node = graph.node(id);
  const ops::AttributeReader reader(node, ops::op_of(node));
  const ops::ScanPlan plan = ops::read_scan(reader, node.formal_inputs());
  const ir::Graph& body = reader.graph("body");
  std::int64_t length = -1;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < plan.scan_inputs; ++i) {
    const ir::ValueType& type = graph.value(node.inputs[plan.states + i]).type;
    if (!type.dims) return "the rank of a scan input is not known";
    axes.push_back(ops::normalise_axis(plan.input_axes[i], static_cast<std::int64_t>(type.dims->size())));
    const ir::Dim& size = (*type.dims)[static_cast<std::size_t>(axes.back())];
    if (size.is_known()) length = size.value();
  }
  if (length < 0) return "its length is not known";
  if (length == 0) return "its length is 0";
  if (length * static_cast<std::int64_t>(body.node_count() + plan.scan_inputs) > kMostNodes)
    return "it would become more than 20000 nodes";
  ops::GraphBuilder builder(graph);
  std::vector<ValueId> states(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(plan.states));
  std::vector<std::vector<ValueId>> outputs(plan.scan_outputs);
  for (std::int64_t t = 0; t < length; ++t) {
    std::vector<ValueId> arguments = states;
    for (std::size_t i = 0; i < plan.scan_inputs; ++i) {
      const std::int64_t at = plan.input_backwards[i] ? length - 1 - t : t;
      arguments.push_back(
          builder.add("Gather", {node.inputs[plan.states + i], builder.scalar(static_cast<double>(at), DType::i64)},
                      {{"axis", axes[i]}}));
    }
    arguments.insert(arguments.end(), captures_of(node).begin(), captures_of(node).end());
    const std::vector<ValueId> results = inlined(graph, body, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i < plan.states) states[i] = results[i];
      else outputs[i - plan.states].push_back(results[i]);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ir::ValueType& type = graph.value(outputs[i][0]).type;
    if (!type.dims) return "the rank of a scan output is not known";
    const std::int64_t axis =
        ops::normalise_axis(plan.output_axes[i], static_cast<std::int64_t>(type.dims->size()) + 1);
    states.push_back(stacked(builder, outputs[i], axis, plan.output_backwards[i]));
  }
  carry_results(graph, id, states);
  return "";
}

// Whether the body of a Loop leaves the number of iterations to the trip count: it returns the condition that it
// received, or true, possibly captured.
bool goes_on(const ir::Graph& graph, const ir::Node& loop, const ir::Graph& body) {
  ValueId next = body.outputs()[0];
  while (body.value(next).producer.valid()) {
    const ir::Node& maker = body.node(body.value(next).producer);
    if (maker.op != "Identity" && maker.op != "Cast") break;
    next = maker.inputs[0];
  }
  if (next == body.inputs()[1] || constant_condition(body, next) == true) return true;
  const auto at = static_cast<std::size_t>(std::ranges::find(body.inputs(), next) - body.inputs().begin());
  const std::size_t formal = body.inputs().size() - static_cast<std::size_t>(loop.captures);
  return at >= formal && at < body.inputs().size() &&
         constant_condition(graph, loop.inputs[loop.formal_inputs() + at - formal]) == true;
}

std::string unroll_loop(ir::Graph& graph, NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Graph& body = subgraph_of(node, "body");
  const std::optional<std::vector<std::int64_t>> count = ops::constant_integers(graph, node, 0);
  const bool starts =
      node.formal_inputs() < 2 || !node.inputs[1].valid() || constant_condition(graph, node.inputs[1]) == true;
  if (!count || count->size() != 1 || !starts || !goes_on(graph, node, body))
    return "its number of iterations depends on data";
  if ((*count)[0] <= 0) return "it has no iterations";
  if ((*count)[0] > kMostNodes / static_cast<std::int64_t>(body.node_count() + 1))
    return "it would become more than 20000 nodes";
  ops::GraphBuilder builder(graph);
  const auto shaped = [&](Tensor scalar, std::size_t input) {
    const bool one = !ops::loop_scalar_dims(body, input).empty();
    return graph.add_constant(one ? scalar.reshaped({1}) : scalar);
  };
  const ValueId condition = shaped(Tensor::scalar(true), 1);
  const std::size_t carried = std::max<std::size_t>(node.formal_inputs(), 2) - 2;
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < carried; ++i) values.push_back(node.inputs[2 + i]);
  std::vector<std::vector<ValueId>> outputs(body.outputs().size() - 1 - carried);
  for (std::int64_t t = 0; t < (*count)[0]; ++t) {
    std::vector<ValueId> arguments{shaped(Tensor::scalar(t), 0), condition};
    arguments.insert(arguments.end(), values.begin(), values.end());
    arguments.insert(arguments.end(), captures_of(node).begin(), captures_of(node).end());
    const std::vector<ValueId> results = inlined(graph, body, arguments);
    for (std::size_t i = 1; i < results.size(); ++i) {
      if (i - 1 < carried) values[i - 1] = results[i];
      else outputs[i - 1 - carried].push_back(results[i]);
    }
  }
  for (const std::vector<ValueId>& each : outputs) values.push_back(stacked(builder, each, 0, false));
  carry_results(graph, id, values);
  return "";
}

std::string unroll_if(ir::Graph& graph, NodeId id) {
  const ir::Node node = graph.node(id);
  const std::optional<bool> condition = constant_condition(graph, node.inputs[0]);
  if (!condition) return "its condition is not known";
  const ir::Graph& branch = subgraph_of(node, *condition ? "then_branch" : "else_branch");
  carry_results(graph, id, inlined(graph, branch, captures_of(node)));
  return "";
}

// The branch with the gradients of its outputs as further inputs and those of its captured values as outputs.
ir::SubgraphPointer backward_branch(const ir::Graph& around, const ir::Node& node, const std::string& name,
                                    std::span<const ValueId> output_gradients, const std::vector<bool>& wanted) {
  auto branch = std::make_shared<ir::Graph>(subgraph_of(node, name));
  const std::vector<ValueId> captured = branch->inputs(), results = branch->outputs();
  for (std::size_t i = 0; i < captured.size(); ++i)
    branch->value(captured[i]).type = around.value(captures_of(node)[i]).type;
  ops::infer_graph(*branch);
  ops::GraphBuilder builder(*branch);
  ValueId sum;
  for (std::size_t i = 0; i < output_gradients.size(); ++i) {
    if (!output_gradients[i].valid()) continue;
    const ValueId gradient = branch->add_input(branch->fresh_name("gradient"), around.value(output_gradients[i]).type);
    const ValueId product =
        builder.add("ReduceSum", {builder.add("Mul", {results[i], gradient})}, {{"keepdims", std::int64_t{0}}});
    sum = sum.valid() ? builder.add("Add", {sum, product}) : product;
  }
  std::vector<ValueId> xs;
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (wanted[i]) xs.push_back(captured[i]);
  }
  branch->set_outputs({});
  for (const ValueId gradient : build_gradients(*branch, sum, xs)) branch->add_output(gradient);
  branch->sort_topologically();
  branch->remove_dead_and_compact();
  return branch;
}

}  // namespace

bool can_unroll(const ir::Node& node) {
  return node.op == "If" || node.op == "Loop" || node.op == "Scan";
}

std::string unroll(ir::Graph& graph, NodeId id) {
  const std::string op = graph.node(id).op;
  return op == "Scan" ? unroll_scan(graph, id) : op == "Loop" ? unroll_loop(graph, id) : unroll_if(graph, id);
}

std::vector<ValueId> gradients_of_if(ir::Graph& graph, const ir::Node& node, std::span<const ValueId> output_gradients,
                                     const std::vector<bool>& wanted) {
  std::vector<ValueId> captures(captures_of(node).begin(), captures_of(node).end());
  const std::size_t captured = captures.size();
  for (const ValueId gradient : output_gradients) {
    if (gradient.valid()) captures.push_back(gradient);
  }
  ir::Attributes branches;
  for (const char* name : {"then_branch", "else_branch"})
    branches.emplace(name, backward_branch(graph, node, name, output_gradients, wanted));
  ops::GraphBuilder builder(graph);
  builder.set_name_prefix("gradient/");
  const auto count = static_cast<std::size_t>(std::ranges::count(wanted, true));
  const std::vector<ValueId> gradients = builder.add_multi("If", {node.inputs[0]}, count, branches, captures);
  std::vector<ValueId> results(captured);
  for (std::size_t i = 0, next = 0; i < captured; ++i) {
    if (wanted[i]) results[i] = gradients[next++];
  }
  return results;
}

}  // namespace tessera::passes
