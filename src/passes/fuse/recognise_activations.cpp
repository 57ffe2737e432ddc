// Replaces activations written as arithmetic by one operator, whatever the order of the multiplications: x · Sigmoid(a
// x) is Swish, x · Clip(x + 3, 0, 6) / 6 HardSwish (and without the x HardSigmoid), x · Tanh(Softplus(x)) Mish, x/2 ·
// (1 + Erf(x/√2)) Gelu, and x/2 · (1 + Tanh(√(2/π) (x + 0.044715 x³))) its approximation.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The tolerance for constants in models, which are rounded to the element type.
double tolerance_of(DType type) {
  if (type == DType::f16) return 0x1p-9;
  return type == DType::bf16 ? 0x1p-6 : 1e-6;
}

// A product: its numbers multiplied to one, and its other factors.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};
// Coefficients of 1, x, x² and x³.
using Polynomial = std::array<double, 4>;
// The depth to which nested sums and products are searched.
constexpr int kMostDepth = 8;

class ActivationRecogniser {
 public:
  explicit ActivationRecogniser(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) {
      const ir::Node& node = graph_.node(id);
      return (node.op == "Mul" || node.op == "Div") && recognise(id, node);
    });
    return std::move(graph_);
  }

 private:
  bool near(double a, double b) const { return std::abs(a - b) <= tolerance_ * std::abs(b); }
  // The node of that operator that produces the value, if nothing else uses the value.
  const ir::Node* maker(ValueId value, std::string_view op) const {
    const ir::Node* node = producer_of(graph_, value, op);
    if (node == nullptr || is_result(graph_, value) || static_cast<std::size_t>(value.index) >= uses_.size())
      return nullptr;
    return uses_[static_cast<std::size_t>(value.index)].size() == 1 ? node : nullptr;
  }
  bool is_number(ValueId value, double number) const {
    const std::optional<double> held = scalar_of(graph_, value);
    return held && near(*held, number);
  }

  // --- products
  Product product_of(const ir::Node& node) const {
    Product product;
    multiply(product, node.inputs[0]);
    if (node.op == "Mul") multiply(product, node.inputs[1]);
    else divide(product, node.inputs[1]);
    return product;
  }
  void multiply(Product& product, ValueId value, int depth = 0) const {
    if (const std::optional<double> number = scalar_of(graph_, value)) {
      product.number *= *number;
    } else if (const ir::Node* node = depth < kMostDepth ? maker(value, "Mul") : nullptr) {
      multiply(product, node->inputs[0], depth + 1);
      multiply(product, node->inputs[1], depth + 1);
    } else if (const ir::Node* quotient = maker(value, "Div");
               quotient != nullptr && scalar_of(graph_, quotient->inputs[1])) {
      multiply(product, quotient->inputs[0], depth + 1);
      divide(product, quotient->inputs[1]);
    } else {
      product.factors.push_back(value);
    }
  }
  void divide(Product& product, ValueId value) const {
    if (const std::optional<double> number = scalar_of(graph_, value)) product.number /= *number;
    else product.number = std::nan("");
  }

  bool recognise(NodeId id, const ir::Node& node) {
    // The operators' attributes hold float32 numbers, and integer types have no such operators.
    const DType dtype = graph_.value(node.outputs[0]).type.dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return false;
    tolerance_ = tolerance_of(dtype);
    const Product product = product_of(node);
    if (product.factors.size() == 1 && near(product.number, 1.0 / 6)) {
      if (const std::optional<ValueId> x = clipped(product.factors[0]))
        return replace(id, "HardSigmoid", *x, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
    }
    for (std::size_t i = 0; i < 2 && product.factors.size() == 2; ++i) {
      if (gated(id, product.number, product.factors[i], product.factors[1 - i])) return true;
    }
    return false;
  }

  // Replaces number · x · gate, where the gate is a function of x.
  bool gated(NodeId id, double number, ValueId x, ValueId gate) {
    if (number == 1) return one_gate(id, x, gate);
    if (near(number, 1.0 / 6) && clipped(gate) == x) return replace(id, "HardSwish", x);
    const ir::Node* add = near(number, 0.5) ? maker(gate, "Add") : nullptr;
    for (std::size_t i = 0; i < 2 && add != nullptr; ++i) {
      if (!is_number(add->inputs[1 - i], 1)) continue;
      if (is_error_function(add->inputs[i], x)) return replace(id, "Gelu", x);
      if (is_its_approximation(add->inputs[i], x))
        return replace(id, "Gelu", x, {{"approximate", std::string("tanh")}});
    }
    return false;
  }
  bool one_gate(NodeId id, ValueId x, ValueId gate) {
    if (const ir::Node* sigmoid = maker(gate, "Sigmoid")) {
      const std::optional<double> alpha = multiple_of(sigmoid->inputs[0], x);
      if (!alpha) return false;
      return *alpha == 1 ? replace(id, "Swish", x) : replace(id, "Swish", x, {{"alpha", static_cast<float>(*alpha)}});
    }
    if (const ir::Node* hard = maker(gate, "HardSigmoid"); hard != nullptr && hard->inputs[0] == x) {
      const auto alpha = hard->attributes.find("alpha"), beta = hard->attributes.find("beta");
      const bool sixth = alpha != hard->attributes.end() && near(std::get<float>(alpha->second), 1.0 / 6);
      const bool half = beta == hard->attributes.end() || std::get<float>(beta->second) == 0.5f;
      return sixth && half && replace(id, "HardSwish", x);
    }
    const ir::Node* tanh = maker(gate, "Tanh");
    return tanh != nullptr && is_softplus(tanh->inputs[0], x) && replace(id, "Mish", x);
  }

  // --- gates
  // The factor by which the value is a multiple of x.
  std::optional<double> multiple_of(ValueId value, ValueId x) const {
    if (value == x) return 1;
    Product product;
    multiply(product, value);
    return product.factors == std::vector<ValueId>{x} && std::isfinite(product.number) ? std::optional(product.number)
                                                                                       : std::nullopt;
  }
  // The x of Clip(x + 3, 0, 6).
  std::optional<ValueId> clipped(ValueId value) const {
    const ir::Node* clip = maker(value, "Clip");
    if (clip == nullptr || clip->inputs.size() < 3 || scalar_of(graph_, clip->inputs[1]) != 0.0 ||
        scalar_of(graph_, clip->inputs[2]) != 6.0)
      return std::nullopt;
    const ir::Node* add = maker(clip->inputs[0], "Add");
    for (std::size_t i = 0; i < 2 && add != nullptr; ++i) {
      if (scalar_of(graph_, add->inputs[1 - i]) == 3.0) return add->inputs[i];
    }
    return std::nullopt;
  }
  bool is_softplus(ValueId value, ValueId x) const {
    const ir::Node* node = maker(value, "Softplus");
    return node != nullptr && node->inputs[0] == x;
  }
  bool is_error_function(ValueId value, ValueId x) const {
    const ir::Node* erf = maker(value, "Erf");
    const std::optional<double> factor = erf == nullptr ? std::nullopt : multiple_of(erf->inputs[0], x);
    return factor && near(*factor, std::numbers::sqrt2 / 2);
  }
  bool is_its_approximation(ValueId value, ValueId x) const {
    const ir::Node* tanh = maker(value, "Tanh");
    const std::optional<Polynomial> found = tanh == nullptr ? std::nullopt : polynomial(tanh->inputs[0], x, 0);
    const double root = std::sqrt(2 * std::numbers::inv_pi);
    // Models write the constants with six or seven digits.
    const auto about = [&](double a, double b) { return std::abs(a - b) <= std::max(1e-5, 2 * tolerance_) * b; };
    return found && (*found)[0] == 0 && about((*found)[1], root) && (*found)[2] == 0 &&
           about((*found)[3], root * 0.044715);
  }
  std::optional<Polynomial> polynomial(ValueId value, ValueId x, int depth) const {
    if (value == x) return Polynomial{0, 1, 0, 0};
    if (const std::optional<double> number = scalar_of(graph_, value)) return Polynomial{*number, 0, 0, 0};
    if (depth == kMostDepth) return std::nullopt;
    if (const ir::Node* power = maker(value, "Pow")) {
      const std::optional<double> exponent = power->inputs[0] == x ? scalar_of(graph_, power->inputs[1]) : std::nullopt;
      if (exponent == 2.0) return Polynomial{0, 0, 1, 0};
      return exponent == 3.0 ? std::optional(Polynomial{0, 0, 0, 1}) : std::nullopt;
    }
    const ir::Node *add = maker(value, "Add"), *node = add != nullptr ? add : maker(value, "Mul");
    if (node == nullptr) return std::nullopt;
    const std::optional<Polynomial> a = polynomial(node->inputs[0], x, depth + 1),
                                    b = a ? polynomial(node->inputs[1], x, depth + 1) : std::nullopt;
    if (!b) return std::nullopt;
    Polynomial result{};
    for (std::size_t i = 0; i < 4; ++i) {
      if (add != nullptr) result[i] = (*a)[i] + (*b)[i];
      for (std::size_t j = 0; j < 4 && add == nullptr; ++j) {
        if (i + j < 4) result[i + j] += (*a)[i] * (*b)[j];
        else if ((*a)[i] * (*b)[j] != 0) return std::nullopt;
      }
    }
    return result;
  }

  bool replace(NodeId id, std::string op, ValueId x, ir::Attributes attributes = {}) {
    // Broadcasting might give the result a shape other than that of x.
    if (graph_.value(graph_.node(id).outputs[0]).type != graph_.value(x).type) return false;
    put_operator(graph_, id, std::move(op), {x}, std::move(attributes));
    return true;
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
  double tolerance_ = 0;
};

}  // namespace

ir::Graph recognise_activations(ir::Graph graph, const PassContext&) {
  return ActivationRecogniser(std::move(graph)).run();
}

}  // namespace tessera::passes
