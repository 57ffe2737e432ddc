// Computes nodes whose inputs are all constants, and Shape and Size of values whose shape is known. Infers types as it
// goes, so that folded shape arithmetic makes the shapes behind it known.
#include "passes/simplify/fold_constants.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ir/constant_role.h"
#include "ops/core/infer.h"
#include "ops/core/node_operands.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/patterns/deferred_constants.h"
#include "passes/patterns/shape_contents.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

bool reads_only_shapes(const ir::Node& node) {
  return has_trait(node, ops::Trait::reads_shapes);
}

// The inputs as values if the node can be computed ahead; nothing otherwise. Weights without bytes (plans of models
// that are not loaded) cannot be computed with.
std::optional<std::vector<Value>> constant_inputs(const ir::Graph& graph, const ir::Node& node) {
  std::vector<Value> inputs;
  for (ir::ValueId id : node.inputs) {
    if (!id.valid()) {
      inputs.emplace_back();
    } else if (const Tensor* constant = graph.constant(id);
               constant != nullptr && (constant->has_data() || constant->elements() == 0)) {
      inputs.emplace_back(*constant);
    } else if (const ir::ValueType& type = graph.value(id).type;
               reads_only_shapes(node) && type.is_tensor() && type.shape()) {
      inputs.emplace_back(Tensor(type.dtype, *type.shape(), nullptr, nullptr));  // its elements are never read
    } else {
      return std::nullopt;
    }
  }
  return inputs;
}

// The price of computing the node, as far as its shapes are known.
FoldingBudget price_of(const ir::Graph& graph, const ir::Node& node) {
  const ops::NodeOperands operands(graph, node);
  FoldingBudget price{0, 0};
  for (const ops::TensorType& input : operands.inputs) {
    if (!reads_only_shapes(node)) price.operations += static_cast<double>(input.elements());
  }
  bool known = true;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const ops::TensorType& output = operands.outputs[i];
    known = known && output.dtype != DType::undefined;
    price.bytes = base::checked_add(price.bytes, output.bytes());
    price.operations += static_cast<double>(output.elements());
  }
  const ops::OpDef& op = ops::op_of(node);
  // An unknown shape (NonZero of a constant) is bounded by the inputs, which are constants already.
  if (known && op.operations != nullptr) price.operations += op.operations(operands.view(node));
  return price;
}

bool gives_tensors(const ir::Graph& graph, const ir::Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId output) {
    return !output.valid() ||
           (graph.value(output).type.is_tensor() && graph.value(output).type.dtype != DType::undefined);
  });
}

// The number of deferred constants in the longest chain from which each constant is computed: reading it takes the
// stack and the memory of all of them.
using Depths = std::map<std::int32_t, int>;
constexpr int kMostDeferred = 4;

std::vector<Value> evaluate(const ir::Graph& graph, const ir::Node& node, std::span<const Value> inputs,
                            const PassContext& context, FoldingBudget& left, bool may_defer) {
  try {
    const FoldingBudget price = price_of(graph, node);
    if (price.bytes > left.bytes || price.operations > left.operations) {
      context.note_weighing();
      return {};
    }
    left.operations -= price.operations;
    std::optional<Tensor> deferred = may_defer ? deferred_result(node, inputs) : std::nullopt;
    std::vector<Value> results = deferred ? std::vector<Value>{std::move(*deferred)} : context.evaluate(node, inputs);
    for (const Value& result : results) left.bytes -= result.is_tensor() ? result.tensor().bytes() : 0;
    return results;
  } catch (const Error&) {
    return {};  // the node stays, and the run that reaches it reports the error with its place
  }
}

// The role of the node's result (ir/constant_role.h), if the graph states roles of constants: a parameter if one is
// among the operands, unmarked if an unmarked constant is, else computed.
std::optional<ir::ConstantRole> role_of_result(const ir::Graph& graph, const ir::Node& node) {
  if (!ir::has_roles(graph)) return std::nullopt;
  ir::ConstantRole role = ir::ConstantRole::computed;
  for (const ir::ValueId input : node.inputs) {
    const Tensor* constant = graph.constant(input);
    if (constant == nullptr || !is_float(constant->dtype())) continue;
    const ir::ConstantRole own = ir::role_of(graph, input);
    if (own == ir::ConstantRole::parameter) return own;
    if (own == ir::ConstantRole::unmarked) role = own;
  }
  return role;
}

// The result of a node of shape arithmetic on constants, computed without a kernel: most nodes folded for a plan are
// such.
std::optional<Tensor> small_result(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1) return std::nullopt;
  ShapeContents contents;
  contents.learn(graph, node);
  return contents.tensor_of(graph, node.outputs[0]);
}

bool may_be_folded(const ir::Graph& graph, const ir::Node& node) {
  const bool wanted = std::ranges::any_of(node.outputs, [](ir::ValueId output) { return output.valid(); });
  return wanted && ops::op_of(node).deterministic && ir::subgraphs_of(node).empty() && gives_tensors(graph, node);
}

void fold_node(ir::Graph& graph, ir::NodeId id, const PassContext& context, FoldingBudget& left, Depths& depths) {
  const ir::Node& node = graph.node(id);
  if (!may_be_folded(graph, node)) return;
  const auto inputs = constant_inputs(graph, node);
  if (!inputs) return;
  context.check_stop();
  if (std::optional<Tensor> small = small_result(graph, node); small && small->bytes() <= left.bytes) {
    left.bytes -= small->bytes();
    graph.become_constant(node.outputs[0], *std::move(small));
    return;
  }
  int depth = 0;
  for (const ir::ValueId input : node.inputs) {
    if (const auto found = depths.find(input.index); found != depths.end()) depth = std::max(depth, found->second);
  }
  const std::vector<Value> results = evaluate(graph, node, *inputs, context, left, depth < kMostDeferred);
  const bool all_tensors = std::all_of(results.begin(), results.end(),
                                       [](const Value& value) { return !value.has_value() || value.is_tensor(); });
  if (!all_tensors) return;
  const std::vector<ir::ValueId> outputs = node.outputs;
  const std::optional<ir::ConstantRole> role = role_of_result(graph, node);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!outputs[i].valid() || !results[i].has_value()) continue;
    if (results[i].tensor().is_deferred()) depths[outputs[i].index] = depth + 1;
    graph.become_constant(outputs[i], results[i].tensor());
    if (role && is_float(results[i].tensor().dtype())) ir::set_role(graph, outputs[i], *role);
  }
}

}  // namespace

FoldingBudget folding_budget(const ir::Graph& graph, FoldingBudget budget) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)});
    if (constant == nullptr || !constant->has_data()) continue;
    budget.bytes = base::checked_add(budget.bytes, base::checked_multiply(2, constant->bytes()));
    budget.operations += 20.0 * static_cast<double>(constant->elements());
  }
  return budget;
}

namespace {

// Whether the node dequantises 8-bit weights of a layer with dequantised data: lower_quantised needs the integers.
bool dequantises_weights(const ir::Graph& graph, const ir::Node& node,
                         const std::vector<std::vector<ir::NodeId>>& uses) {
  if (node.op != "DequantizeLinear") return false;
  const Tensor* bytes = graph.constant(node.inputs[0]);
  const auto index = static_cast<std::size_t>(node.outputs[0].index);
  if (bytes == nullptr || bytes->dtype() != DType::i8 || index >= uses.size() || uses[index].empty()) return false;
  return std::all_of(uses[index].begin(), uses[index].end(), [&](ir::NodeId id) {
    const ir::Node& use = graph.node(id);
    if ((use.op != "Conv" && use.op != "MatMul" && use.op != "Gemm") || use.inputs[1] != node.outputs[0]) return false;
    const ir::ValueInfo& data = graph.value(use.inputs[0]);
    return data.origin == ir::Origin::node && graph.node(data.producer).op == "DequantizeLinear";
  });
}

// Whether the node transposes large weights that only products read, which can read them untransposed
// (absorb_transposes): a transposed copy would stay in memory.
bool transposes_weights(const ir::Graph& graph, const ir::Node& node,
                        const std::vector<std::vector<ir::NodeId>>& uses) {
  constexpr std::int64_t kLargeBytes = std::int64_t{4} << 20;
  if (node.op != "Transpose") return false;
  const Tensor* weights = graph.constant(node.inputs[0]);
  const auto index = static_cast<std::size_t>(node.outputs[0].index);
  if (weights == nullptr || weights->dtype() != DType::f32 || weights->rank() != 2 || weights->bytes() < kLargeBytes)
    return false;
  if (permutation_of(node, 2)[0] != 1 || index >= uses.size() || uses[index].empty() ||
      is_result(graph, node.outputs[0]))
    return false;
  return std::ranges::all_of(uses[index], [&](ir::NodeId id) {
    const ir::Node& use = graph.node(id);
    return use.op == "MatMul" && use.inputs[1] == node.outputs[0] && use.inputs[0] != node.outputs[0];
  });
}

// Whether the node widens large weights beyond the type in which the file stores them.
bool widens_weights(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::int64_t kLargeBytes = std::int64_t{4} << 10;
  if (node.op != "DequantizeLinear" && node.op != "Cast") return false;
  const Tensor* stored = graph.constant(node.inputs[0]);
  const ir::ValueId output = node.outputs[0];
  if (stored == nullptr || !output.valid() || !graph.value(output).type.is_tensor()) return false;
  return stored->bytes() >= kLargeBytes && bits_of(graph.value(output).type.dtype) > bits_of(stored->dtype());
}

// Infers types node by node and skips nodes whose inputs have not changed.
class Inference {
 public:
  // `inferred`: all types are as inference leaves them.
  Inference(ir::Graph& graph, bool inferred) : graph_(graph), inferred_(inferred), new_(graph.value_count(), false) {
    for (std::size_t i = 0; inferred && i < new_.size(); ++i)
      was_constant_.push_back(graph.is_constant(ir::ValueId{static_cast<std::int32_t>(i)}));
  }

  void infer(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (!inferred_) return ops::infer_node_in_place(graph_, id);
    const bool reads_new = std::ranges::any_of(node.inputs, [&](ir::ValueId input) { return is_new(input); });
    if (!reads_new && ir::subgraphs_of(node).empty()) return;
    std::vector<ir::ValueType> before;
    for (const ir::ValueId output : node.outputs)
      before.push_back(output.valid() ? graph_.value(output).type : ir::ValueType{});
    ops::infer_node_in_place(graph_, id);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const ir::ValueId output = node.outputs[i];
      if (output.valid() && !(graph_.value(output).type == before[i]))
        new_[static_cast<std::size_t>(output.index)] = true;
    }
  }

 private:
  // Whether the value has another type than before, or has become a constant.
  bool is_new(ir::ValueId id) const {
    if (!id.valid()) return false;
    const auto index = static_cast<std::size_t>(id.index);
    return index >= new_.size() || new_[index] || (graph_.is_constant(id) && !was_constant_[index]);
  }

  ir::Graph& graph_;
  const bool inferred_;
  std::vector<bool> new_, was_constant_;  // by value
};

void fold(ir::Graph& graph, const PassContext& context, bool all) {
  FoldingBudget own = folding_budget(graph, context.folding);
  FoldingBudget& left = context.folding_left != nullptr ? *context.folding_left : own;
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  Depths depths;
  const bool folds = !context.leaves_out("fold_constants");
  Inference inference(graph, context.types_are_inferred);
  for (ir::NodeId id : graph.order()) {
    inference.infer(id);
    if (!folds) continue;
    if (transposes_weights(graph, graph.node(id), uses)) continue;
    if (context.keeps_narrow_weights && widens_weights(graph, graph.node(id))) continue;
    if (all || !dequantises_weights(graph, graph.node(id), uses)) fold_node(graph, id, context, left, depths);
  }
}

}  // namespace

ir::Graph fold_constants(ir::Graph graph, const PassContext& context) {
  fold(graph, context, false);
  graph.remove_dead_and_compact();
  return graph;
}
ir::Graph fold_all_constants(ir::Graph graph, const PassContext& context) {
  fold(graph, context, true);
  graph.remove_dead_and_compact();
  return graph;
}
void fold_in_place(ir::Graph& graph, const PassContext& context) {
  fold(graph, context, false);
}

bool has_constant_operands(const ir::Graph& graph, const ir::Node& node) {
  return may_be_folded(graph, node) && constant_inputs(graph, node).has_value();
}

std::vector<Value> folded_results(const ir::Graph& graph, const ir::Node& node, const PassContext& context,
                                  FoldingBudget& left) {
  const auto inputs = constant_inputs(graph, node);
  if (!inputs) return {};
  context.check_stop();
  if (std::optional<Tensor> small = small_result(graph, node); small && small->bytes() <= left.bytes) {
    left.bytes -= small->bytes();
    return {Value(*std::move(small))};
  }
  return evaluate(graph, node, *inputs, context, left, false);
}

}  // namespace tessera::passes
