// Replaces exp(x - max x) / sum(exp(x - max x)) by Softmax, and x - log(sum(exp(x))) by LogSoftmax, along one axis.
// Without the maximum the arithmetic overflows where the operator does not; elsewhere both are equal.
#include <limits>
#include <optional>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class SoftmaxRecogniser {
 public:
  explicit SoftmaxRecogniser(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) { return recognise(id); });
    return std::move(graph_);
  }

 private:
  bool recognise(NodeId id) {
    inside_.clear();
    const ir::Node& node = graph_.node(id);
    const std::string& op = node.op;
    if (op == "Div") return softmax(id, node.inputs[0], node.inputs[1]);
    if (op == "Mul") return product(id, node.inputs[0], node.inputs[1]) || product(id, node.inputs[1], node.inputs[0]);
    if (op == "Log") return logarithm(id);
    return op == "Sub" && difference(id);
  }

  const ir::Node* take(ValueId value, std::string_view op) {
    const ir::Node* node = producer_of(graph_, value, op);
    if (node != nullptr) inside_.push_back(graph_.value(value).producer);
    return node;
  }
  ValueId reshaped(ValueId value) {
    for (const std::string_view op : {"Reshape", "Unsqueeze"}) {
      if (const ir::Node* node = take(value, op)) return node->inputs[0];
    }
    return value;
  }

  // The one axis along which `op` reduces `x` to `value`, whose shape is that of x with size 1 there.
  std::optional<std::int64_t> reduced(ValueId value, std::string_view op, ValueId x) {
    const ir::Node* node = take(reshaped(value), op);
    const auto axes = node != nullptr && node->inputs[0] == x ? reduced_axes(graph_, *node) : std::nullopt;
    return axes && axes->size() == 1 && is_statistic(graph_, value, x, *axes) ? std::optional(axes->front())
                                                                              : std::nullopt;
  }

  // The operand of softmax along the axis: x of x - max(x), or the value itself.
  ValueId operand(ValueId value, std::int64_t axis) {
    const std::size_t before = inside_.size();
    const ir::Node* node = take(value, "Sub");
    if (node != nullptr) {
      const ValueId x = node->inputs[0], largest = node->inputs[1];
      if (is_bounded_maximum(largest, x, axis)) return x;
      inside_.resize(before + 1);
      if (reduced(largest, "ReduceMax", x) == axis) return x;
    }
    inside_.resize(before);
    return value;
  }
  // max(-infinity, max(x)), as JAX computes it.
  bool is_bounded_maximum(ValueId value, ValueId x, std::int64_t axis) {
    const ir::Node* bounded = take(reshaped(value), "Max");
    if (bounded == nullptr || bounded->inputs.size() != 2 || !is_statistic(graph_, value, x, {axis})) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (scalar_of(graph_, bounded->inputs[1 - i]) != -std::numeric_limits<double>::infinity()) continue;
      const ir::Node* reduce = take(bounded->inputs[i], "ReduceMax");
      return reduce != nullptr && reduce->inputs[0] == x &&
             reduced_axes(graph_, *reduce) == std::vector<std::int64_t>{axis};
    }
    return false;
  }

  bool softmax(NodeId id, ValueId above, ValueId below) {
    const ir::Node* exponentials = take(above, "Exp");
    const std::optional<std::int64_t> axis =
        exponentials == nullptr ? std::nullopt : reduced(below, "ReduceSum", above);
    return axis && place(id, "Softmax", operand(exponentials->inputs[0], *axis), *axis);
  }
  // exp(x) · (1 / sum)
  bool product(NodeId id, ValueId above, ValueId inverse) {
    inside_.clear();
    const ir::Node* reciprocal = take(inverse, "Reciprocal");
    return reciprocal != nullptr && softmax(id, above, reciprocal->inputs[0]);
  }

  bool logarithm(NodeId id) {
    const ir::Node* node = take(graph_.node(id).inputs[0], "Softmax");
    if (node == nullptr) return false;
    const auto axis = node->attributes.find("axis");
    return place(id, "LogSoftmax", node->inputs[0],
                 axis == node->attributes.end() ? -1 : std::get<std::int64_t>(axis->second));
  }

  // x - log(sum(exp(x)))
  bool difference(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const ValueId x = node.inputs[0];
    if (const auto axis = reduced(node.inputs[1], "ReduceLogSumExp", x)) return place(id, "LogSoftmax", x, *axis);
    inside_.clear();
    const ir::Node* log = take(node.inputs[1], "Log");
    const ir::Node* sum = log == nullptr ? nullptr : producer_of(graph_, log->inputs[0], "ReduceSum");
    const ir::Node* exponentials = sum == nullptr ? nullptr : take(sum->inputs[0], "Exp");
    if (exponentials == nullptr || exponentials->inputs[0] != x) return false;
    const auto axis = reduced(log->inputs[0], "ReduceSum", sum->inputs[0]);
    return axis && place(id, "LogSoftmax", operand(x, *axis), *axis);
  }

  bool place(NodeId id, std::string op, ValueId x, std::int64_t axis) {
    if (!is_float(graph_.value(x).type.dtype) || !is_closed(graph_, uses_, inside_, id)) return false;
    const auto rank = dims_of(graph_, x) == nullptr ? -1 : static_cast<std::int64_t>(dims_of(graph_, x)->size());
    put_operator(graph_, id, std::move(op), {x}, {{"axis", axis == rank - 1 ? std::int64_t{-1} : axis}});
    return true;
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<NodeId> inside_;  // the nodes of the pattern
};

}  // namespace

ir::Graph recognise_softmax(ir::Graph graph, const PassContext&) {
  return SoftmaxRecogniser(std::move(graph)).run();
}

}  // namespace tessera::passes
