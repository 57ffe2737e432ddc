// The operand types and constants of a node of a graph, from which a NodeView of it is made.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ops/op_table.h"

namespace tessera::ops {

// The type of a value whose dimensions are all known numbers; undefined for any other value and for an absent one.
inline TensorType concrete_type(const ir::Graph& graph, ir::ValueId id) {
  if (!id.valid()) return {};
  const ir::ValueType& type = graph.value(id).type;
  std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape ? TensorType{type.dtype, *std::move(shape)} : TensorType{};
}

struct NodeOperands {
  std::vector<TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;  // one per input; null where the value is not known before a run

  // Operands with the types that the graph has for them.
  NodeOperands(const ir::Graph& graph, const ir::Node& node)
      : NodeOperands(graph, node, [&](ir::ValueId id) { return concrete_type(graph, id); }) {}
  // Operands with the types that type_of(ValueId) returns; it is called for present values only.
  template <typename TypeOf>
  NodeOperands(const ir::Graph& graph, const ir::Node& node, TypeOf type_of) {
    for (const ir::ValueId id : node.inputs) {
      inputs.push_back(id.valid() ? type_of(id) : TensorType{});
      constants.push_back(id.valid() ? graph.constant(id) : nullptr);
    }
    for (const ir::ValueId id : node.outputs) outputs.push_back(id.valid() ? type_of(id) : TensorType{});
  }

  // Whether all present operands have a type.
  bool are_concrete(const ir::Node& node) const {
    return has_types(node.inputs, inputs) && has_types(node.outputs, outputs);
  }
  // The view refers to this object and to the node.
  NodeView view(const ir::Node& node) const { return {node, op_of(node), inputs, outputs, constants}; }

 private:
  static bool has_types(const std::vector<ir::ValueId>& ids, const std::vector<TensorType>& types) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i].valid() && types[i].dtype == DType::undefined) return false;
    }
    return true;
  }
};

}  // namespace tessera::ops
