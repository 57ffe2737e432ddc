#include "passes/patterns/integer_sums.h"

#include <algorithm>

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class SumReader {
 public:
  SumReader(const ir::Graph& graph, const QuantisedOperands& operands, std::size_t rank, std::int64_t outputs)
      : graph_(graph), operands_(operands), rank_(rank), outputs_(outputs) {}

  std::optional<IntegerSums> run(ValueId value) {
    IntegerSums found;
    found.weights_scale.assign(static_cast<std::size_t>(outputs_), 1.0);
    found.behind = ChannelMap::identity(outputs_);
    std::optional<NodeId> next = operands_.follower(value);
    if (next && graph_.node(*next).op == "Add") {
      found.integers = other(*next, value);
      if (!is_by_output(found.integers, DType::i32)) return std::nullopt;
      value = graph_.node(*next).outputs[0];
      next = operands_.follower(value);
    }
    if (!next || graph_.node(*next).op != "Cast" || type_of(*next).dtype != DType::f32) return std::nullopt;
    found.last = *next;
    while ((next = operands_.follower(result(found))) && (take_scale(*next, found) || take_map(*next, found)))
      found.last = *next;
    return found;
  }

 private:
  const ir::ValueType& type_of(NodeId id) const { return graph_.value(graph_.node(id).outputs[0]).type; }
  ValueId result(const IntegerSums& found) const { return graph_.node(found.last).outputs[0]; }
  // The operand of a sum or product beside `value`.
  ValueId other(NodeId id, ValueId value) const {
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    return inputs[inputs[0] == value ? 1 : 0];
  }

  // Whether the value has one element per output, broadcast to the result as [outputs, 1...], with or without the batch
  // axis.
  bool is_by_output(ValueId value, DType dtype) const {
    const ir::ValueType& type = graph_.value(value).type;
    if (!type.is_tensor() || type.dtype != dtype || !type.dims) return false;
    const ir::Dims& dims = *type.dims;
    if (dims.size() > rank_ || dims.size() + 1 < rank_) return false;
    const std::size_t channels = dims.size() + 1 - rank_;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (!(dims[i] == ir::Dim(i == channels ? outputs_ : 1))) return false;
    }
    return true;
  }
  // One number that broadcasts to the result without adding axes.
  bool is_single(ValueId value) const {
    const ir::ValueType& type = graph_.value(value).type;
    return type.is_tensor() && type.dtype == DType::f32 && type.dims && type.dims->size() <= 1 &&
           std::ranges::all_of(*type.dims, [](const ir::Dim& dim) { return dim == ir::Dim(1); });
  }
  // A constant as one number per output.
  std::optional<std::vector<double>> numbers(ValueId value) const {
    const Tensor* constant = graph_.constant(value);
    if (constant == nullptr || !constant->has_data() || !(is_single(value) || is_by_output(value, DType::f32)))
      return std::nullopt;
    const std::span<const float> given = constant->values<float>();
    if (given.size() == 1) return std::vector<double>(static_cast<std::size_t>(outputs_), given[0]);
    return std::vector<double>(given.begin(), given.end());
  }

  // Takes a product with a scale known at run time, if it is the first such scale.
  bool take_scale(NodeId product, IntegerSums& found) const {
    if (graph_.node(product).op != "Mul" || found.data_scale.valid() || found.behind.shifts()) return false;
    const ValueId scale = other(product, result(found));
    if (scale == result(found) || graph_.is_constant(scale)) return false;
    // Integers can be added before one scale only.
    const bool has_unit = found.integers.valid();
    if (has_unit && found.behind.scales()) return false;
    if (auto parts = parts_of(scale)) {
      found.data_scale = parts->first;
      found.weights_scale = std::move(parts->second);
    } else if (is_single(scale)) {
      found.data_scale = scale;
    } else {
      return false;
    }
    found.unit = scale;
    return true;
  }

  // A product of a number known at run time and of constant scales.
  std::optional<std::pair<ValueId, std::vector<double>>> parts_of(ValueId scale) const {
    if (graph_.value(scale).origin != ir::Origin::node) return std::nullopt;
    const ir::Node& node = graph_.node(graph_.value(scale).producer);
    if (node.op != "Mul") return std::nullopt;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (auto constant = numbers(node.inputs[1 - i]); constant && is_single(node.inputs[i]))
        return std::pair(node.inputs[i], std::move(*constant));
    }
    return std::nullopt;
  }

  bool take_map(NodeId id, IntegerSums& found) const {
    const std::optional<ChannelMap> map = channel_map(graph_, graph_.node(id), result(found), 1, outputs_);
    if (!map) return false;
    IntegerSums more = found;
    more.behind.then(*map);
    const ChannelMap all{more.scale(), more.behind.shift};
    if (!all.is_finite()) return false;
    found.behind = std::move(more.behind);
    return true;
  }

  const ir::Graph& graph_;
  const QuantisedOperands& operands_;
  std::size_t rank_;
  std::int64_t outputs_;
};

}  // namespace

std::vector<double> IntegerSums::scale() const {
  std::vector<double> all = weights_scale;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] *= behind.scale[i];
  return all;
}

std::optional<IntegerSums> find_integer_sums(const ir::Graph& graph, const QuantisedOperands& operands, ValueId value,
                                             std::int64_t outputs) {
  const ir::ValueType& type = graph.value(value).type;
  if (!type.dims) return std::nullopt;
  return SumReader(graph, operands, type.dims->size(), outputs).run(value);
}

}  // namespace tessera::passes
