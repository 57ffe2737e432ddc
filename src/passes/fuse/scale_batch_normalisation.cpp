// Replaces a BatchNormalization in inference mode that was not folded into a layer by x · scale + shift per channel:
// one multiplication and one addition per element, which fuse into one loop with the activation behind them and follow
// convolutions to channels last. Applies to constants for many channels only; where the operands are variables, as
// between two steps of training, to any feature map: scale and shift of each channel are then computed in the run.
#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/channel_map.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

bool scale(ir::Graph& graph, ops::GraphBuilder& builder, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Dims* dims = node.outputs[0].valid() ? dims_of(graph, node.inputs[0]) : nullptr;
  if (dims == nullptr || dims->size() < 2 || !(*dims)[1].is_known() || (*dims)[1].value() < kManyChannels ||
      graph.value(node.inputs[0]).type.dtype != DType::f32)
    return false;
  const std::size_t rank = dims->size();
  const std::optional<ChannelMap> map = batch_normalisation_map(graph, node, (*dims)[1].value());
  if (!map) return false;
  const ir::ValueId product =
      builder.add("Mul", {node.inputs[0], builder.constant(channel_constant(map->scale, 1, rank))});
  ir::Node sum{"Add", node.name, {product, builder.constant(channel_constant(map->shift, 1, rank))}, {node.outputs[0]},
               {},    0};
  graph.replace_node(id, std::move(sum));
  return true;
}

// Computes x · a + b with a = scale / sqrt(variance + epsilon) and b = B − mean · a.
bool scale_by_variables(ir::Graph& graph, ops::GraphBuilder& builder, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Dims* dims = node.outputs[0].valid() ? dims_of(graph, node.inputs[0]) : nullptr;
  if (dims == nullptr || dims->size() < 3 || node.outputs.size() != 1 || integer_of(node, "training_mode", 0) != 0)
    return false;
  bool any_variable = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ir::ValueType& type = graph.value(node.inputs[i]).type;
    if (type.dtype != DType::f32 || (i > 0 && !type.shape())) return false;
    any_variable = any_variable || (i > 0 && !graph.is_constant(node.inputs[i]));
  }
  if (!any_variable) return false;
  std::vector<std::int64_t> shape(dims->size() - 1, 1);
  shape[0] = (*graph.value(node.inputs[1]).type.shape())[0];
  const ir::ValueId epsilon = builder.scalar(ops::AttributeReader(node, ops::op_of(node)).real("epsilon"));
  const ir::ValueId deviation = builder.add("Sqrt", {builder.add("Add", {node.inputs[4], epsilon})});
  const ir::ValueId slope = builder.add("Div", {node.inputs[1], deviation});
  const ir::ValueId shift = builder.add("Sub", {node.inputs[2], builder.add("Mul", {node.inputs[3], slope})});
  const auto by_channel = [&](ir::ValueId values) { return builder.add("Reshape", {values, builder.integers(shape)}); };
  const ir::ValueId product = builder.add("Mul", {node.inputs[0], by_channel(slope)});
  graph.replace_node(id, {"Add", node.name, {product, by_channel(shift)}, {node.outputs[0]}, {}, 0});
  return true;
}

}  // namespace

ir::Graph scale_batch_normalisation(ir::Graph graph, const PassContext&) {
  ops::GraphBuilder builder(graph);
  rewrite_each(graph, [&](ir::NodeId id) {
    return graph.node(id).op == "BatchNormalization" &&
           (scale(graph, builder, id) || scale_by_variables(graph, builder, id));
  });
  return graph;
}

}  // namespace tessera::passes
