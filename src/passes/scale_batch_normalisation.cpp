// BatchNormalization at inference that was folded into no layer becomes x · scale + shift, a channel at a time: one
// multiplication and one addition an element, which go with the activation behind them into one loop and follow
// convolutions to channels last. For many channels only.
#include "ops/builder.h"
#include "passes/channel_map.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"

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

}  // namespace

ir::Graph scale_batch_normalisation(ir::Graph graph, const PassContext&) {
  ops::GraphBuilder builder(graph);
  const std::vector<ir::NodeId> order = graph.order();
  bool changed = false;
  for (const ir::NodeId id : order)
    changed = (graph.node(id).op == "BatchNormalization" && scale(graph, builder, id)) || changed;
  if (!changed) return graph;
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
