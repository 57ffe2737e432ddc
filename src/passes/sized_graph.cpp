#include "passes/sized_graph.h"

#include <algorithm>
#include <utility>

#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/simplify/fold_constants.h"

namespace tessera::passes {
namespace {

// The part of the folding budget that folding here may use: so little that the budget cannot run out in the passes.
constexpr std::int64_t kPart = 4;

}  // namespace

bool SizedGraph::resize(std::span<const ir::ValueType> inputs, const PassContext& given) {
  PassContext context = given;
  context.memory = nullptr;
  context.size_notes = nullptr;
  const bool known = std::exchange(known_, false);
  known_ = known ? update(inputs, context) : make(inputs, context);
  return known_;
}

bool SizedGraph::make(std::span<const ir::ValueType> inputs, const PassContext& given) {
  graph_ = model_;
  for (std::size_t i = 0; i < inputs.size(); ++i) graph_.value(graph_.inputs()[i]).type = inputs[i];
  ops::infer_graph(graph_);
  PassContext context = given;
  const FoldingBudget whole = folding_budget(graph_, context.folding);
  FoldingBudget left = whole;
  context.folding_left = &left;
  context.types_are_inferred = true;
  fold_in_place(graph_, context);
  most_ = {whole.bytes / kPart, whole.operations / kPart};
  kept_.clear();
  for (const ir::NodeId id : model_.order()) kept_.push_back(keeps(id, context));
  return whole.bytes - left.bytes <= most_.bytes && whole.operations - left.operations <= most_.operations;
}

bool SizedGraph::update(std::span<const ir::ValueType> inputs, const PassContext& context) {
  changed_.assign(graph_.value_count(), 0);
  left_ = most_;
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::ValueId id = graph_.inputs()[i];
    if (graph_.value(id).type == inputs[i]) continue;
    graph_.value(id).type = inputs[i];
    changed_[static_cast<std::size_t>(id.index)] = any = true;
  }
  if (!any) return true;
  const std::vector<ir::NodeId>& order = model_.order();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool reads_changed = std::ranges::any_of(model_.node(order[i]).inputs, [&](ir::ValueId input) {
      return input.valid() && changed_[static_cast<std::size_t>(input.index)] != 0;
    });
    if (!reads_changed) continue;
    if (!update_node(order[i], context)) return false;
    kept_[i] = keeps(order[i], context);
  }
  return true;
}

bool SizedGraph::update_node(ir::NodeId id, const PassContext& context) {
  const ir::Node& node = model_.node(id);
  if (std::ranges::any_of(node.outputs, [&](ir::ValueId output) { return graph_.is_constant(output); }))
    return fold_again(id, context);
  if (has_constant_operands(graph_, graph_.node(id))) return false;
  std::vector<ir::ValueType> former;
  for (const ir::ValueId output : node.outputs) {
    former.emplace_back();
    if (!output.valid()) continue;
    former.back() = std::move(graph_.value(output).type);
    graph_.value(output).type = model_.value(output).type;
  }
  ops::infer_node_in_place(graph_, id);
  for (std::size_t i = 0; i < former.size(); ++i) {
    const ir::ValueId output = node.outputs[i];
    if (output.valid() && !(graph_.value(output).type == former[i]))
      changed_[static_cast<std::size_t>(output.index)] = 1;
  }
  return true;
}

// A folded node has lost its outputs: it gets them back for as long as it is computed.
bool SizedGraph::fold_again(ir::NodeId id, const PassContext& context) {
  const std::vector<ir::ValueId>& outputs = model_.node(id).outputs;
  std::vector<Tensor> former;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    former.emplace_back();
    if (!outputs[i].valid()) continue;
    if (!graph_.is_constant(outputs[i])) return false;
    former.back() = *graph_.constant(outputs[i]);
    ir::ValueInfo& info = graph_.value(outputs[i]);
    info.origin = ir::Origin::node;
    info.producer = id;
    info.output_index = static_cast<std::int32_t>(i);
    info.type = model_.value(outputs[i]).type;
    graph_.node(id).outputs[i] = outputs[i];
  }
  ops::infer_node_in_place(graph_, id);
  std::vector<Value> results = folded_results(graph_, graph_.node(id), context, left_);
  if (results.size() != outputs.size()) return false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid()) continue;
    if (!results[i].is_tensor() || former[i].is_deferred()) return false;
    const bool same = identical(former[i], results[i].tensor());
    graph_.become_constant(outputs[i], same ? std::move(former[i]) : std::move(results[i].tensor()));
    if (!same) changed_[static_cast<std::size_t>(outputs[i].index)] = 1;
  }
  return true;
}

bool SizedGraph::keeps(ir::NodeId id, const PassContext& context) const {
  const ir::Node& node = graph_.node(id);
  const ops::OpDef* op = ops::find_op(node.op);
  return op != nullptr && op->decompose != nullptr && context.keeps_composite && context.keeps_composite(graph_, node);
}

}  // namespace tessera::passes
