// Replaces arithmetic by cheaper arithmetic with the same result: powers become products and roots, division by a
// constant multiplication, a Sum of two operands Add, a choice between one and zero a conversion. Removes arithmetic
// that returns its operand (times one, minus zero, a double negation, a choice with a constant condition).
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class Simplifier {
 public:
  explicit Simplifier(ir::Graph graph) : graph_(std::move(graph)), replacements_(graph_) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      replacements_.apply_to(graph_.node(id));
      if (!unchanged(id)) rewrite(id);
    }
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  DType dtype(ValueId value) const { return graph_.value(value).type.dtype; }

  // --- what gives one of its operands
  bool unchanged(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.outputs.empty() || !node.outputs[0].valid()) return false;
    const std::optional<ValueId> same = kept(node);
    return same && same_dims(graph_, *same, node.outputs[0]) && dtype(*same) == dtype(node.outputs[0]) &&
           replacements_.replace(node.outputs[0], *same);
  }

  std::optional<ValueId> kept(const ir::Node& node) const {
    const std::string& op = node.op;
    if (op == "Mul") return operand_beside(node, 1);
    if (op == "Div" && is_filled_with(graph_, node.inputs[1], 1)) return node.inputs[0];
    if (op == "Add") return beside_nothing(node);
    if (op == "Sub" && is_nothing_subtracted(node.inputs[1])) return node.inputs[0];
    if (op == "Pow" && is_filled_with(graph_, node.inputs[1], 1)) return node.inputs[0];
    if (op == "Where") return chosen(node);
    const ops::OpDef& def = ops::op_of(node);
    if (def.has(ops::Trait::keeps_one_operand) && node.inputs.size() == 1) return node.inputs[0];
    if (def.has(ops::Trait::own_inverse)) {
      const ir::Node* inner = producer_of(graph_, node.inputs[0], op);
      return inner == nullptr ? std::nullopt : std::optional(inner->inputs[0]);
    }
    if (def.has(ops::Trait::idempotent)) {
      return producer_of(graph_, node.inputs[0], op) != nullptr ? std::optional(node.inputs[0]) : std::nullopt;
    }
    return std::nullopt;
  }
  std::optional<ValueId> operand_beside(const ir::Node& node, double number) const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_filled_with(graph_, node.inputs[i], number)) return node.inputs[1 - i];
    }
    return std::nullopt;
  }
  // x + 0 is x, except for floats, where -0 + 0 is 0.
  std::optional<ValueId> beside_nothing(const ir::Node& node) const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_filled_with(graph_, node.inputs[i], 0) && has_sign(node.inputs[i], true)) return node.inputs[1 - i];
    }
    return std::nullopt;
  }
  // Whether subtracting the value has no effect: x - 0 is x, but x - -0 is x + 0.
  bool is_nothing_subtracted(ValueId value) const { return is_filled_with(graph_, value, 0) && has_sign(value, false); }
  // Whether the zeros of a constant are all negative, or all positive. Integers have no sign there.
  bool has_sign(ValueId zeros, bool negative) const {
    const Tensor& constant = *graph_.constant(zeros);
    if (constant.dtype() == DType::f32)
      return std::ranges::all_of(constant.values<float>(), [&](float zero) { return std::signbit(zero) == negative; });
    if (constant.dtype() == DType::f64)
      return std::ranges::all_of(constant.values<double>(),
                                 [&](double zero) { return std::signbit(zero) == negative; });
    const auto is_signed = [&](auto zero) { return (zero.bits >> 15 != 0) == negative; };
    if (constant.dtype() == DType::f16) return std::ranges::all_of(constant.values<f16_t>(), is_signed);
    if (constant.dtype() == DType::bf16) return std::ranges::all_of(constant.values<bf16_t>(), is_signed);
    return true;
  }
  std::optional<ValueId> chosen(const ir::Node& where) const {
    if (where.inputs[1] == where.inputs[2]) return where.inputs[1];
    const Tensor* condition = graph_.constant(where.inputs[0]);
    if (condition == nullptr || !condition->has_data() || condition->elements() == 0) return std::nullopt;
    const std::span<const bool> values = condition->values<bool>();
    const bool first = values[0];
    if (std::ranges::any_of(values, [&](bool value) { return value != first; })) return std::nullopt;
    return where.inputs[first ? 1 : 2];
  }

  // --- what becomes another operator
  void rewrite(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.op == "Pow") power(id, node);
    else if (node.op == "Div") division(id, node);
    else if (node.op == "Where") choice(id, node);
    else if (node.op == "Sum" && node.inputs.size() == 2) put_operator(graph_, id, "Add", node.inputs);
  }

  // Simplifies a choice by a negated condition, and one between one and zero.
  void choice(NodeId id, const ir::Node& node) {
    if (const ir::Node* opposite = producer_of(graph_, node.inputs[0], "Not"))
      return put_operator(graph_, id, "Where", {opposite->inputs[0], node.inputs[2], node.inputs[1]});
    const DType type = dtype(node.outputs[0]);
    const bool is_number = type == DType::f32 || type == DType::i32 || type == DType::i64;
    if (!is_number || !is_filled_with(graph_, node.inputs[1], 1) || !is_filled_with(graph_, node.inputs[2], 0) ||
        !has_sign(node.inputs[2], false))
      return;
    if (same_dims(graph_, node.inputs[0], node.outputs[0]))
      put_operator(graph_, id, "Cast", {node.inputs[0]}, {{"to", static_cast<std::int64_t>(type)}});
  }

  void power(NodeId id, const ir::Node& node) {
    const ValueId x = node.inputs[0];
    const std::optional<double> exponent = scalar_of(graph_, node.inputs[1]);
    if (!exponent || !is_float(dtype(x)) || !same_dims(graph_, x, node.outputs[0])) return;
    if (*exponent == 2) put_operator(graph_, id, "Mul", {x, x});
    else if (*exponent == 0.5) put_operator(graph_, id, "Sqrt", {x});
    else if (*exponent == -1) put_operator(graph_, id, "Reciprocal", {x});
  }

  void division(NodeId id, const ir::Node& node) {
    if (graph_.is_constant(node.inputs[0])) return;
    if (const ValueId inverse = inverse_of(node.inputs[1]); inverse.valid())
      put_operator(graph_, id, "Mul", {node.inputs[0], inverse});
  }
  // The inverse of a constant, shared by all layers that divide by it.
  ValueId inverse_of(ValueId value) {
    const auto [place, is_new] = inverses_.try_emplace(value);
    const Tensor* constant = is_new ? graph_.constant(value) : nullptr;
    if (constant == nullptr || !constant->has_data() || constant->dtype() != DType::f32 ||
        constant->elements() > kMostElements)
      return place->second;
    const std::span<const float> values = constant->values<float>();
    if (!std::ranges::all_of(values, [](float each) { return std::isnormal(each) && std::isnormal(1 / each); }))
      return place->second;
    Tensor inverse(DType::f32, constant->shape());
    std::ranges::transform(values, inverse.mutable_data<float>(), [](float each) { return 1 / each; });
    return place->second = graph_.add_constant(std::move(inverse));
  }

  static constexpr std::int64_t kMostElements = 1 << 20;

  ir::Graph graph_;
  Replacements replacements_;
  std::map<ValueId, ValueId> inverses_;
};

}  // namespace

ir::Graph simplify_arithmetic(ir::Graph graph, const PassContext&) {
  return Simplifier(std::move(graph)).run();
}

}  // namespace tessera::passes
