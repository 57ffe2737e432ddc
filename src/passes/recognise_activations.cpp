// Activations that a model spells out become one operator: x · Sigmoid(x) is Swish, x · HardSigmoid(x) with slope 1/6 is HardSwish, and
// x/2 · (1 + Erf(x/√2)) in any of its spellings is Gelu.
#include <cmath>
#include <optional>

#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class Recogniser {
 public:
  explicit Recogniser(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const ir::Node& node = graph_.node(id);
      if (node.op != "Mul") continue;
      if (!gated(id, node)) gelu(id);
    }
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  // The node of that operator that makes the value, when nothing else uses it.
  const ir::Node* maker(ValueId value, std::string_view op) const {
    if (!value.valid() || graph_.value(value).origin != ir::Origin::node || graph_.is_output(value)) return nullptr;
    if (static_cast<std::size_t>(value.index) >= uses_.size() || uses_[static_cast<std::size_t>(value.index)].size() != 1) return nullptr;
    const ir::Node& node = graph_.node(graph_.value(value).producer);
    return node.op == op ? &node : nullptr;
  }
  bool is_number(ValueId value, double number) const {
    const Tensor* constant = graph_.constant(value);
    return constant != nullptr && constant->raw() != nullptr && constant->dtype() == DType::f32 && constant->elements() == 1 &&
           std::abs(*constant->data<float>() - number) <= 1e-6 * std::abs(number);
  }
  // The other operand of a node with this one among its two; nothing without it.
  template <typename Test>
  std::optional<ValueId> other(const ir::Node& node, Test test) const {
    for (std::size_t i = 0; i < 2; ++i) {
      if (test(node.inputs[i])) return node.inputs[1 - i];
    }
    return std::nullopt;
  }
  std::optional<ValueId> other_than_number(const ir::Node& node, double number) const {
    return other(node, [&](ValueId value) { return is_number(value, number); });
  }

  bool gated(NodeId id, const ir::Node& mul) {
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId x = mul.inputs[1 - i];
      const ir::Node* gate = maker(mul.inputs[i], "Sigmoid");
      if (gate != nullptr && gate->inputs[0] == x) return replace(id, "Swish", x);
      gate = maker(mul.inputs[i], "HardSigmoid");
      if (gate == nullptr || gate->inputs[0] != x) continue;
      const auto alpha = gate->attributes.find("alpha"), beta = gate->attributes.find("beta");
      const bool sixth = alpha != gate->attributes.end() && std::abs(std::get<float>(alpha->second) - 1.0f / 6) < 1e-6f;
      const bool half = beta == gate->attributes.end() || std::get<float>(beta->second) == 0.5f;
      if (sixth && half) return replace(id, "HardSwish", x);
    }
    return false;
  }

  // x when the value is 1 + Erf(x / √2).
  std::optional<ValueId> error_function(ValueId value) const {
    const ir::Node* add = maker(value, "Add");
    const std::optional<ValueId> inner = add == nullptr ? std::nullopt : other_than_number(*add, 1);
    const ir::Node* erf = inner ? maker(*inner, "Erf") : nullptr;
    if (erf == nullptr) return std::nullopt;
    if (const ir::Node* divided = maker(erf->inputs[0], "Div")) {
      if (is_number(divided->inputs[1], std::sqrt(2.0))) return divided->inputs[0];
    } else if (const ir::Node* multiplied = maker(erf->inputs[0], "Mul")) {
      return other_than_number(*multiplied, std::sqrt(0.5));
    }
    return std::nullopt;
  }

  // The product of x, 1/2 and 1 + Erf(x / √2), in any order.
  bool gelu(NodeId id) {
    const ir::Node& outer = graph_.node(id);
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId a = outer.inputs[i], b = outer.inputs[1 - i];
      if (const std::optional<ValueId> x = error_function(a)) {  // (1 + Erf) · (x / 2)
        const ir::Node* halved = maker(b, "Mul");
        const std::optional<ValueId> of = halved == nullptr ? std::nullopt : other_than_number(*halved, 0.5);
        if (of == x) return replace(id, "Gelu", *x);
      }
      const ir::Node* inner = maker(a, "Mul");
      if (inner == nullptr) continue;
      if (is_number(b, 0.5)) {  // (x · (1 + Erf)) · 1/2
        for (std::size_t j = 0; j < 2; ++j) {
          const std::optional<ValueId> x = error_function(inner->inputs[j]);
          if (x && *x == inner->inputs[1 - j]) return replace(id, "Gelu", *x);
        }
      }
      if (const std::optional<ValueId> half = other_than_number(*inner, 0.5)) {  // x · ((1 + Erf) · 1/2)
        const std::optional<ValueId> x = error_function(*half);
        if (x && *x == b) return replace(id, "Gelu", *x);
      }
    }
    return false;
  }

  bool replace(NodeId id, std::string op, ValueId x) {
    const ir::Node& node = graph_.node(id);
    // Broadcasting might give the result another shape than x has.
    if (graph_.value(node.outputs[0]).type != graph_.value(x).type) return false;
    graph_.replace_node(id, ir::Node{std::move(op), node.name, {x}, node.outputs, {}, 0});
    return true;
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph recognise_activations(ir::Graph graph, const PassContext&) { return Recogniser(std::move(graph)).run(); }

}  // namespace tessera::passes
