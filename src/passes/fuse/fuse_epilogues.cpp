// Fuses the operators behind a convolution or a product with a matrix of weights into its epilogue: a bias, the sum
// with another tensor, an activation. A reshape that merges axes of a product's data is fused too. A fusion takes place
// only if the device has a kernel for the result.
#include <algorithm>
#include <optional>

#include "ops/element_wise/fused_activation.h"
#include "ops/op_table.h"
#include "ops/quantised/quantised_layers.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/linear_form.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;
using At = ops::QuantisedLayerInputs;

constexpr std::size_t kBias = 2;  // of X, W and B
// The 8-bit layers (ops/quantised/quantised_layers.h): a real result takes a bias and an activation, a quantised one
// the sum behind it.
constexpr std::string_view kQuantisedConv = "tessera::QuantisedConv", kQuantisedLinear = "tessera::QuantisedLinear";
bool is_quantised(const ir::Node& node) {
  return node.op == kQuantisedConv || node.op == kQuantisedLinear;
}

// Whether the operator ends with an activation, which Tessera's own operators state by attributes
// (ops::activation_attributes).
bool ends_with_activation(const ops::OpDef& op) {
  return op.name.starts_with("tessera::") &&
         std::ranges::any_of(op.attributes, [](const ops::AttributeSpec& spec) { return spec.name == "activation"; });
}

// The position of input Z, which is added to the result before its activation, if the operator has one.
std::optional<std::size_t> addend_input(const ops::OpDef& op) {
  const auto found = std::ranges::find(op.inputs, "Z", &ops::Parameter::name);
  return found == op.inputs.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - op.inputs.begin()));
}

class EpilogueFuser {
 public:
  EpilogueFuser(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    // Visits in reverse order: the later of two producers fuses the Add, because its other operand is available there.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (const std::optional<ir::Node> start = fusible(graph_.node(*id))) fuse(*id, *start);
    }
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  // The only node that uses the value.
  std::optional<NodeId> follower(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    if (index >= uses_.size() || uses_[index].size() != 1 || is_result(graph_, value)) return std::nullopt;
    const NodeId id = uses_[index][0];
    return graph_.node(id).op.empty() ? std::nullopt : std::optional(id);
  }

  // The node in the form into which operators can be fused; nothing if it has none.
  std::optional<ir::Node> fusible(const ir::Node& node) const {
    if (has_quantised_result(node)) return has_input(node, At::addend) ? std::nullopt : std::optional(node);
    if (ends_with_activation(ops::op_of(node)))
      return node.attributes.contains("activation") ? std::nullopt : std::optional(node);
    return as_linear(graph_, node);
  }

  void fuse(NodeId id, ir::Node conv) {
    std::vector<NodeId> taken;
    if (const std::optional<ir::Node> flat = without_flattening(conv)) {
      conv = *flat;
      taken.push_back(id);
    }
    while (const std::optional<NodeId> next = follower(conv.outputs[0])) {
      ir::Node candidate = conv;
      const bool ends =
          has_quantised_result(conv) ? with_quantised_sum(*next, candidate) : with_activation(*next, candidate);
      if (!ends && !with_bias(*next, candidate) && !with_addend(*next, candidate)) break;
      candidate.outputs = {graph_.node(*next).outputs[0]};
      if (!context_.keeps_composite || !context_.keeps_composite(graph_, candidate)) break;
      conv = std::move(candidate);
      taken.push_back(*next);
      if (ends) break;
    }
    // Replaces the last fused node; the others are dead.
    if (!taken.empty()) graph_.replace_node(taken.back(), std::move(conv));
  }

  // The product reading the tensor in front of a view that merges its last axes.
  std::optional<ir::Node> without_flattening(const ir::Node& linear) const {
    if (linear.op != kLinear || linear.attributes.contains("axis") || !follower(linear.inputs[0])) return std::nullopt;
    const ir::ValueInfo& flat = graph_.value(linear.inputs[0]);
    const ir::Node* view = flat.origin == ir::Origin::node ? &graph_.node(flat.producer) : nullptr;
    const ops::OpDef* op = view != nullptr ? ops::find_op(view->op) : nullptr;
    if (op == nullptr || !op->view || !view->inputs[0].valid()) return std::nullopt;
    const ir::Dims *x = dims_of(graph_, view->inputs[0]), *y = dims_of(graph_, linear.inputs[0]);
    if (x == nullptr || y == nullptr || x->size() <= y->size()) return std::nullopt;
    const auto axis = static_cast<std::ptrdiff_t>(y->size()) - 1;
    const ir::Dim inputs = ir::product({x->begin() + axis, x->end()});
    if (!surely_equal({x->begin(), x->begin() + axis}, {y->begin(), y->begin() + axis}) ||
        !inputs.surely_equals(y->back()) || inputs.surely_equals(0))
      return std::nullopt;
    ir::Node wide = linear;
    wide.inputs[0] = view->inputs[0];
    wide.attributes.emplace("axis", static_cast<std::int64_t>(axis));
    return context_.keeps_composite && context_.keeps_composite(graph_, wide) ? std::optional(std::move(wide))
                                                                              : std::nullopt;
  }

  bool with_activation(NodeId next, ir::Node& conv) const {
    const std::optional<ops::FusedActivation> found = ops::fused_activation_of(graph_, graph_.node(next));
    if (!found) return false;
    conv.attributes.insert_or_assign("activation", std::string(found->name));
    if (!found->values.empty()) conv.attributes.insert_or_assign("activation_params", found->values);
    return true;
  }

  static bool has_input(const ir::Node& node, std::size_t i) {
    return node.inputs.size() > i && node.inputs[i].valid();
  }
  static void set_input(ir::Node& node, std::size_t i, ValueId value) {
    node.inputs.resize(std::max(node.inputs.size(), i + 1));
    node.inputs[i] = value;
  }

  static bool has_quantised_result(const ir::Node& node) {
    return is_quantised(node) && has_input(node, At::result_scale);
  }

  // Fuses the sum of quantised tensors behind a quantised result. Shapes must be known, because the device's kernel
  // depends on them.
  bool with_quantised_sum(NodeId next, ir::Node& layer) const {
    const ir::Node& sum = graph_.node(next);
    const ir::Dims* dims = dims_of(graph_, layer.outputs[0]);
    if (sum.op != "com.microsoft::QLinearAdd" || dims == nullptr || !ir::to_shape(*dims)) return false;
    constexpr std::size_t kOperand = 3,
                          kResult = 6;  // values, scale and zero point of an operand; scale and zero point
    const std::size_t own = sum.inputs[0] == layer.outputs[0] ? 0 : kOperand, other = kOperand - own;
    if (!has_input(sum, own + 2) || !has_input(sum, other + 2) || !has_input(sum, kResult + 1) ||
        !same_dims(graph_, sum.inputs[other], layer.outputs[0]))
      return false;
    // Both nodes must have the same scale and zero point for the result in between.
    if (!same_constant(sum.inputs[own + 1], layer.inputs[At::result_scale]) ||
        !same_constant(sum.inputs[own + 2], layer.inputs[At::result_zero]))
      return false;
    for (std::size_t i = 0; i < kOperand; ++i) set_input(layer, At::addend + i, sum.inputs[other + i]);
    for (std::size_t i = 0; i < 2; ++i) set_input(layer, At::sum_scale + i, sum.inputs[kResult + i]);
    return true;
  }
  bool same_constant(ValueId a, ValueId b) const {
    const Tensor *x = graph_.constant(a), *y = graph_.constant(b);
    return a == b || (x != nullptr && y != nullptr && identical(*x, *y));
  }

  // The other operand, if the node adds something to the result.
  std::optional<ValueId> added(NodeId next, const ir::Node& conv) const {
    const ir::Node& add = graph_.node(next);
    if (add.op != "Add") return std::nullopt;
    return add.inputs[add.inputs[0] == conv.outputs[0] ? 1 : 0];
  }

  // A constant row [1, n], which some converters add, as a vector [n]; any other value unchanged.
  ValueId as_vector(ValueId value, const ir::Node& conv) {
    const Tensor* row = graph_.constant(value);
    const ir::Dims* result = dims_of(graph_, conv.outputs[0]);
    if (row == nullptr || !row->has_data() || row->rank() < 2 || result == nullptr ||
        static_cast<std::size_t>(row->rank()) > result->size() || row->elements() != row->shape().back())
      return value;
    return graph_.add_constant(row->reshaped({row->elements()}));
  }

  // Fuses a vector, constant or not; for a convolution, other passes fold constant ones into the weights' bias.
  bool with_bias(NodeId next, ir::Node& conv) {
    std::optional<ValueId> other = added(next, conv);
    const bool product =
        conv.op == kQuantisedLinear || (conv.op == kLinear && !has_input(conv, *addend_input(ops::op_of(conv))));
    if (!other || !product || has_input(conv, kBias)) return false;
    other = as_vector(*other, conv);
    const ir::ValueType& bias = graph_.value(*other).type;
    if (!bias.is_tensor() || bias.dtype != DType::f32 || !bias.dims || bias.dims->size() != 1 ||
        !(*bias.dims)[0].is_known() || !outputs_of_linear(graph_, conv).surely_equals((*bias.dims)[0].value()) ||
        (is_quantised(conv) && !graph_.is_constant(*other)))
      return false;
    set_input(conv, kBias, *other);
    return true;
  }

  bool with_addend(NodeId next, ir::Node& conv) const {
    const std::optional<ValueId> other = added(next, conv);
    const std::optional<std::size_t> addend = addend_input(ops::op_of(conv));
    if (!other || is_quantised(conv) || !addend || has_input(conv, *addend) ||
        !same_dims(graph_, *other, conv.outputs[0]))
      return false;
    set_input(conv, *addend, *other);
    return true;
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph fuse_epilogues(ir::Graph graph, const PassContext& context) {
  return EpilogueFuser(std::move(graph), context).run();
}

}  // namespace tessera::passes
