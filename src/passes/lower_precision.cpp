// The user asked for bfloat16: convolutions and products with constant weights round their data and weights to it (ops/rounded_product.h)
// and sum in float32. A result that only such layers read is stored rounded, as they would round it: the same numbers in half the
// memory. Everything else stays as it is.
#include <algorithm>

#include "passes/pass.h"
#include "tessera/dtype.h"

namespace tessera::passes {
namespace {

bool is_layer(const ir::Node& node) { return node.op == "tessera::ChannelsLastConv" || node.op == "tessera::Linear"; }
// Kernels that round compute many outputs of a group at once; others (depthwise ones) are bound by memory anyway.
bool has_wide_groups(const ir::Graph& graph, const ir::Node& node) {
  const auto group = node.attributes.find("group");
  const std::int64_t groups = group == node.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
  constexpr std::int64_t kFewOutputs = 8;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || weights->shape().empty() || groups < 1) return false;
  return groups == 1 || weights->shape()[0] / groups >= kFewOutputs;
}

bool is_rounded(const ir::Node& node) { return is_layer(node) && node.attributes.contains("precision"); }

// A product with constant weights as the layer that can be rounded.
ir::Node as_layer(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "MatMul" || graph.constant(node.inputs[1]) == nullptr || graph.constant(node.inputs[1])->shape().size() != 2) return node;
  const ir::ValueType& x = graph.value(node.inputs[0]).type;
  if (!x.is_tensor() || !x.dims || x.dims->size() < 2) return node;
  ir::Node layer = node;
  layer.op = "tessera::Linear";
  return layer;
}

}  // namespace

ir::Graph lower_precision(ir::Graph graph, const PassContext& context) {
  if (context.precision != DType::bf16 || !context.keeps_composite) return graph;
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    ir::Node layer = as_layer(graph, graph.node(id));
    if (!is_layer(layer) || !has_wide_groups(graph, layer) || graph.value(layer.inputs[1]).type.dtype != DType::f32) continue;
    layer.attributes.insert_or_assign("precision", std::string("bf16"));
    if (context.keeps_composite(graph, layer)) graph.replace_node(id, std::move(layer));
  }
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  for (const ir::NodeId id : order) {
    ir::Node& node = graph.node(id);
    if (!is_rounded(node) || graph.is_output(node.outputs[0])) continue;
    const ir::ValueId y = node.outputs[0];
    const std::vector<ir::NodeId>& users = uses[static_cast<std::size_t>(y.index)];
    const bool only_data = !users.empty() && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
      const ir::Node& use = graph.node(user);
      return is_rounded(use) && use.inputs[0] == y && std::count(use.inputs.begin(), use.inputs.end(), y) == 1;
    });
    if (!only_data) continue;
    node.attributes.insert_or_assign("output_dtype", static_cast<std::int64_t>(DType::bf16));
    graph.value(y).type.dtype = DType::bf16;
  }
  return graph;
}

}  // namespace tessera::passes
