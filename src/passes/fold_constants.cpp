// Computes what can be computed ahead: nodes whose inputs are all constants, and Shape and Size of values whose shape is known.
// Infers types on the way, so that shape arithmetic folded here makes the shapes behind it known.
#include <algorithm>

#include "base/error.h"
#include "ops/infer.h"
#include "ops/op_table.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

bool reads_only_shapes(const ir::Node& node) { return node.op == "Shape" || node.op == "Size"; }

// The inputs as values if the node can be computed now; nothing otherwise. Weights without bytes (plans of models that are
// not here) are not computed with.
std::optional<std::vector<Value>> constant_inputs(const ir::Graph& graph, const ir::Node& node) {
  std::vector<Value> inputs;
  for (ir::ValueId id : node.inputs) {
    if (!id.valid()) {
      inputs.emplace_back();
    } else if (const Tensor* constant = graph.constant(id); constant != nullptr && (constant->raw() != nullptr || constant->elements() == 0)) {
      inputs.emplace_back(*constant);
    } else if (const ir::ValueType& type = graph.value(id).type; reads_only_shapes(node) && type.is_tensor() && type.shape()) {
      inputs.emplace_back(Tensor(type.dtype, *type.shape(), nullptr, nullptr));  // its elements are never read
    } else {
      return std::nullopt;
    }
  }
  return inputs;
}

bool small_enough(const ir::Graph& graph, const ir::Node& node, std::int64_t limit) {
  for (ir::ValueId output : node.outputs) {
    if (!output.valid()) continue;
    const ir::ValueType& type = graph.value(output).type;
    if (!type.is_tensor() || type.dtype == DType::undefined) return false;
    // An unknown shape (NonZero of a constant) is bounded by what its inputs hold, which are constants already.
    if (const std::optional<Shape> shape = type.shape(); shape && byte_count(type.dtype, *shape) > limit) return false;
  }
  return true;
}

void fold_node(ir::Graph& graph, ir::NodeId id, const PassContext& context) {
  const ir::Node& node = graph.node(id);
  const ops::OpDef& op = ops::op_of(node);
  if (!op.deterministic || !ir::subgraphs_of(node).empty() || !small_enough(graph, node, context.max_folded_bytes)) return;
  const auto inputs = constant_inputs(graph, node);
  if (!inputs) return;
  std::vector<Value> results;
  try {
    results = context.evaluate(node, *inputs);
  } catch (const Error&) {
    return;  // the node stays, and the run that reaches it reports the error with its place
  }
  const std::vector<ir::ValueId> outputs = node.outputs;
  const bool all_tensors = std::all_of(results.begin(), results.end(), [](const Value& value) { return !value.has_value() || value.is_tensor(); });
  if (!all_tensors) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].valid() && results[i].has_value()) graph.become_constant(outputs[i], results[i].tensor());
  }
}

}  // namespace

ir::Graph fold_constants(ir::Graph graph, const PassContext& context) {
  for (ir::NodeId id : graph.order()) {
    ops::infer_node_in_place(graph, id);
    fold_node(graph, id, context);
  }
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
