#include "passes/patterns/quantised_operands.h"

#include <algorithm>
#include <cstring>

#include "ops/op_table.h"

namespace tessera::passes {

using ir::NodeId;
using ir::ValueId;

namespace {

bool is_byte(DType type) {
  return type == DType::u8 || type == DType::i8;
}

}  // namespace

bool moves_quantised(const ir::Node& node) {
  return ops::op_of(node).has(ops::Trait::rearranges) || node.op == "MaxPool";
}

// The node that dequantises to this value of f32.
const ir::Node* QuantisedOperands::dequantising(ValueId value) const {
  if (!value.valid() || graph_.value(value).origin != ir::Origin::node || graph_.value(value).type.dtype != DType::f32)
    return nullptr;
  const ir::Node& node = graph_.node(graph_.value(value).producer);
  return node.op == "DequantizeLinear" ? &node : nullptr;
}

// The value of a constant of one element.
const Tensor* QuantisedOperands::single(ValueId value) const {
  const Tensor* constant = graph_.constant(value);
  return constant != nullptr && constant->has_data() && constant->elements() == 1 ? constant : nullptr;
}

// Both are the same number, as constants or as the same value.
bool QuantisedOperands::same(ValueId a, ValueId b) const {
  if (a == b) return true;
  const Tensor *x = single(a), *y = single(b);
  return x != nullptr && y != nullptr && x->dtype() == y->dtype() &&
         std::memcmp(x->raw(), y->raw(), static_cast<std::size_t>(x->bytes())) == 0;
}

// Whether the node has a positive scale and an 8-bit zero point, one of each, and f32 as real type.
bool QuantisedOperands::is_by_tensor(const ir::Node& node) const {
  const Tensor* scale = single(node.inputs[1]);
  if (scale == nullptr || scale->dtype() != DType::f32 || !(*scale->data<float>() > 0)) return false;
  return !has_input(node, 2) || (single(node.inputs[2]) != nullptr && is_byte(single(node.inputs[2])->dtype()));
}

// The 8-bit form of a real tensor that was dequantised.
std::optional<Quantised> QuantisedOperands::dequantised(ValueId value) const {
  const ir::Node* node = dequantising(value);
  if (node == nullptr || !is_by_tensor(*node) || graph_.value(node->inputs[0]).type.dtype != DType::u8)
    return std::nullopt;
  return Quantised{node->inputs[0], node->inputs[1], has_input(*node, 2) ? node->inputs[2] : ValueId{}};
}

std::optional<QuantisedWeights> QuantisedOperands::weights(ValueId value, std::int64_t axis) const {
  const ir::Node* node = dequantising(value);
  if (node == nullptr) return std::nullopt;
  const Tensor *bytes = graph_.constant(node->inputs[0]), *scale = graph_.constant(node->inputs[1]);
  if (bytes == nullptr || !bytes->has_data() || bytes->dtype() != DType::i8 || scale == nullptr ||
      scale->dtype() != DType::f32 || !scale->has_data())
    return std::nullopt;
  if (scale->elements() != 1) {
    const auto given = node->attributes.find("axis");
    const std::int64_t own = given == node->attributes.end() ? 1 : std::get<std::int64_t>(given->second),
                       rank = static_cast<std::int64_t>(bytes->shape().size());
    if (scale->shape().size() != 1 || (own < 0 ? own + rank : own) != axis) return std::nullopt;
  }
  if (has_input(*node, 2)) {
    const Tensor* zeros = graph_.constant(node->inputs[2]);
    if (zeros == nullptr || !zeros->has_data()) return std::nullopt;
    const auto* bytes_of = static_cast<const std::byte*>(zeros->raw());
    if (!std::all_of(bytes_of, bytes_of + zeros->bytes(), [](std::byte zero) { return zero == std::byte{0}; }))
      return std::nullopt;
  }
  return QuantisedWeights{node->inputs[0], node->inputs[1]};
}

// A bias as real numbers in a vector, a constant; an invalid value where there is none.
std::optional<ValueId> QuantisedOperands::bias(const ir::Node& node, std::size_t i) const {
  if (!has_input(node, i)) return ValueId{};
  const Tensor* constant = graph_.constant(node.inputs[i]);
  if (constant == nullptr || constant->dtype() != DType::f32 || constant->shape().size() != 1) return std::nullopt;
  return node.inputs[i];
}

// The only node that uses the value.
std::optional<NodeId> QuantisedOperands::follower(ValueId value) const {
  const auto index = static_cast<std::size_t>(value.index);
  if (index >= uses_.size() || uses_[index].size() != 1 || graph_.is_output(value)) return std::nullopt;
  return graph_.node(uses_[index][0]).op.empty() ? std::nullopt : std::optional(uses_[index][0]);
}

// The node that quantises the value to 8 bits, if nothing else uses the value.
std::optional<NodeId> QuantisedOperands::quantising(ValueId value) const {
  const std::optional<NodeId> next = follower(value);
  if (!next || graph_.node(*next).op != "QuantizeLinear") return std::nullopt;
  const ir::Node& node = graph_.node(*next);
  return node.inputs[0] == value && has_input(node, 2) && is_by_tensor(node) ? next : std::nullopt;
}

}  // namespace tessera::passes
