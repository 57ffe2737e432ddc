#include "train/net/frozen_batch_norm.h"

#include <cmath>

#include "ops/core/gradient.h"
#include "ops/op_table.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;
using ops::Term;

// The factor of each channel in a normalisation, and the shift that is added then.
struct ChannelMap {
  Tensor factor, addend;
};

std::optional<ChannelMap> map_of(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* operands[4];
  for (std::size_t i = 0; i < 4; ++i) {
    operands[i] = graph.constant(node.inputs[i + 1]);
    if (operands[i] == nullptr || operands[i]->dtype() != DType::f32 || !operands[i]->has_data() ||
        operands[i]->rank() != 1 || operands[i]->elements() != operands[0]->elements())
      return std::nullopt;
  }
  const double epsilon = ops::AttributeReader(node, ops::op_of(node)).real("epsilon");
  const Shape& shape = operands[0]->shape();
  ChannelMap map{Tensor(DType::f32, shape), Tensor(DType::f32, shape)};
  for (std::int64_t c = 0; c < operands[0]->elements(); ++c) {
    const auto of = [&](std::size_t i) { return static_cast<double>(operands[i]->data<float>()[c]); };
    const double factor = of(0) / std::sqrt(of(3) + epsilon);
    map.factor.mutable_data<float>()[c] = static_cast<float>(factor);
    map.addend.mutable_data<float>()[c] = static_cast<float>(of(1) - of(2) * factor);
  }
  return map;
}

// The convolution whose only reader is the normalisation, or null.
const ir::Node* convolution_before(const ir::Graph& graph, const ir::Node& node,
                                   const std::vector<std::vector<NodeId>>& uses) {
  const ValueId x = node.inputs[0];
  if (graph.value(x).origin != ir::Origin::node || graph.is_output(x) ||
      uses[static_cast<std::size_t>(x.index)].size() != 1)
    return nullptr;
  const ir::Node& conv = graph.node(graph.value(x).producer);
  const ir::ValueType& weights = graph.value(conv.inputs.size() > 1 ? conv.inputs[1] : x).type;
  const bool known = weights.is_tensor() && weights.dtype == DType::f32 && weights.dims && weights.dims->size() >= 3;
  return conv.op == "Conv" && known ? &conv : nullptr;
}

bool is_frozen(const ir::Node& node) {
  const auto training = node.attributes.find("training_mode");
  const bool trains = training != node.attributes.end() && std::get<std::int64_t>(training->second) != 0;
  return node.op == "BatchNormalization" && node.inputs.size() == 5 && !trains;
}

}  // namespace

std::int64_t take_up_frozen_batch_norm(ir::Graph& graph) {
  const std::vector<std::vector<NodeId>> uses = graph.compute_uses();
  const std::vector<NodeId> order = graph.order();
  ops::GraphBuilder builder(graph);
  std::int64_t taken = 0;
  for (const NodeId id : order) {
    const ir::Node norm = graph.node(id);
    if (!is_frozen(norm)) continue;
    const ir::Node* before = convolution_before(graph, norm, uses);
    const std::optional<ChannelMap> map = before == nullptr ? std::nullopt : map_of(graph, norm);
    if (!map) continue;
    ir::Node conv = *before;
    const NodeId conv_id = graph.value(norm.inputs[0]).producer;
    Shape across(graph.value(conv.inputs[1]).type.dims->size(), 1);
    across[0] = map->factor.elements();
    const Term factor(builder, builder.constant(map->factor)), addend(builder, builder.constant(map->addend));
    const Term factors(builder, builder.constant(map->factor.reshaped(across)));
    conv.inputs[1] = (Term(builder, conv.inputs[1]) * factors).id();
    conv.inputs.resize(3);
    conv.inputs[2] = conv.inputs[2].valid() ? (Term(builder, conv.inputs[2]) * factor + addend).id() : addend.id();
    conv.outputs = {norm.outputs[0]};
    graph.remove_node(conv_id);
    graph.replace_node(id, std::move(conv));
    ++taken;
  }
  if (taken > 0) graph.sort_topologically();
  return taken;
}

}  // namespace tessera::train
