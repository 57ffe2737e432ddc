// The user asked for bfloat16: convolutions and products with constant weights round their data and weights to it (ops/rounded_product.h)
// and sum in float32. A result that only such layers read is stored rounded: where they multiply it the same numbers in half the
// memory, and where they add it what was asked for. Depthwise convolutions are bound by memory and gain only where their data is stored
// rounded anyway. Everything else stays as it is.
#include <algorithm>

#include "passes/linear_form.h"
#include "passes/pass.h"
#include "tessera/dtype.h"

namespace tessera::passes {
namespace {

bool is_layer(const ir::Node& node) { return node.op == "tessera::ChannelsLastConv" || node.op == "tessera::Linear"; }
bool is_rounded(const ir::Node& node) { return is_layer(node) && node.attributes.contains("precision"); }

std::int64_t groups_of(const ir::Node& node) {
  const auto group = node.attributes.find("group");
  return group == node.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
}

// Kernels for groups compute many outputs of one at once.
bool has_wide_groups(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::int64_t kFewOutputs = 8;
  const Tensor* weights = graph.constant(node.inputs[1]);
  const std::int64_t groups = groups_of(node);
  if (weights == nullptr || weights->shape().empty() || groups < 1) return false;
  return groups == 1 || weights->shape()[0] / groups >= kFewOutputs;
}

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* weights = node.op == "tessera::ChannelsLastConv" ? graph.constant(node.inputs[1]) : nullptr;
  return weights != nullptr && weights->shape().size() > 1 && weights->shape()[1] == 1 && weights->shape()[0] == groups_of(node);
}

class Rounder {
 public:
  Rounder(ir::Graph graph, const PassContext& context) : graph_(std::move(graph)), context_(context), order_(graph_.order()), uses_(graph_.compute_uses()) {}

  ir::Graph run() && {
    for (const ir::NodeId id : order_) {
      ir::Node layer = as_linear(graph_, graph_.node(id)).value_or(graph_.node(id));
      if (is_layer(layer) && has_wide_groups(graph_, layer)) round(id, std::move(layer));
    }
    // In order: a depthwise layer's data may come from another one.
    for (const ir::NodeId id : order_) {
      const ir::Node& node = graph_.node(id);
      if (is_layer(node) && !is_rounded(node) && is_depthwise(graph_, node) && may_store_rounded(node.inputs[0], true)) round(id, node);
    }
    for (const ir::NodeId id : order_) {
      ir::Node& node = graph_.node(id);
      if (!is_rounded(node) || !may_store_rounded(node.outputs[0], false)) continue;
      node.attributes.insert_or_assign("output_dtype", static_cast<std::int64_t>(DType::bf16));
      graph_.value(node.outputs[0]).type.dtype = DType::bf16;
    }
    return std::move(graph_);
  }

 private:
  void round(ir::NodeId id, ir::Node layer) {
    if (graph_.value(layer.inputs[1]).type.dtype != DType::f32) return;
    layer.attributes.insert_or_assign("precision", std::string("bf16"));
    if (context_.keeps_composite(graph_, layer)) graph_.replace_node(id, std::move(layer));
  }

  // Whether a layer that rounds makes the value, and only layers that round read it: as data, or a convolution as addend. `then`:
  // depthwise layers count that would round it then.
  bool may_store_rounded(ir::ValueId value, bool then) const {
    const ir::ValueInfo& stored = graph_.value(value);
    if (stored.origin != ir::Origin::node || !is_rounded(graph_.node(stored.producer)) || graph_.is_output(value)) return false;
    const std::vector<ir::NodeId>& users = uses_[static_cast<std::size_t>(value.index)];
    return !users.empty() && std::ranges::all_of(users, [&](ir::NodeId id) {
      const ir::Node& user = graph_.node(id);
      if (!is_rounded(user) && !(then && is_layer(user) && is_depthwise(graph_, user))) return false;
      const std::size_t addend = user.op == "tessera::ChannelsLastConv" ? 3 : 0;
      for (std::size_t i = 0; i < user.inputs.size(); ++i) {
        if (user.inputs[i] == value && i != 0 && i != addend) return false;
      }
      return true;
    });
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<ir::NodeId> order_;
  std::vector<std::vector<ir::NodeId>> uses_;
};

}  // namespace

ir::Graph lower_precision(ir::Graph graph, const PassContext& context) {
  if (context.precision != DType::bf16 || !context.keeps_composite) return graph;
  return Rounder(std::move(graph), context).run();
}

}  // namespace tessera::passes
