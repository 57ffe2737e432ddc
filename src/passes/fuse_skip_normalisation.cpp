// A sum and the LayerNormalization or RMSNormalization of it become one operator that gives both, where no layer before them takes the sum.
#include <optional>

#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// Of the fused operators.
constexpr std::size_t kSum = 3;

class Fuser {
 public:
  Fuser(ir::Graph graph, const PassContext& context) : graph_(std::move(graph)), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    if (!context_.keeps_composite) return std::move(graph_);
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const ir::Node& node = graph_.node(id);
      if (node.op == "LayerNormalization" || node.op == "RMSNormalization") fuse(id);
    }
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  void fuse(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ir::Node* add = producer_of(graph_, node.inputs[0], "Add");
    if (add == nullptr || !is_plain(node) || !same_dims(graph_, add->inputs[0], add->inputs[1])) return;
    const ValueId sum = node.inputs[0];
    const auto epsilon = node.attributes.find("epsilon");
    ir::Node fused{node.op == "LayerNormalization" ? "com.microsoft::SkipLayerNormalization" : "com.microsoft::SkipSimplifiedLayerNormalization", node.name,
                   {add->inputs[0], add->inputs[1]}, {node.outputs[0]}, {{"epsilon", epsilon == node.attributes.end() ? 1e-5f : std::get<float>(epsilon->second)}}, 0};
    fused.inputs.insert(fused.inputs.end(), node.inputs.begin() + 1, node.inputs.end());
    const bool wants_sum = is_result(graph_, sum) || uses_[static_cast<std::size_t>(sum.index)].size() > 1;
    if (wants_sum) {
      fused.outputs.resize(kSum + 1);
      fused.outputs[kSum] = sum;
    }
    if (!context_.keeps_composite(graph_, fused)) return;
    if (wants_sum) graph_.remove_node(graph_.value(sum).producer);
    graph_.replace_node(id, std::move(fused));
  }

  // float32, over the last axis, by constants (which do not come of the sum), and without the statistics.
  bool is_plain(const ir::Node& node) const {
    const ir::Dims* dims = dims_of(graph_, node.inputs[0]);
    if (dims == nullptr || !node.outputs[0].valid() || graph_.value(node.inputs[0]).type.dtype != DType::f32 || graph_.value(node.outputs[0]).type.dtype != DType::f32) return false;
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) return false;
    }
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      const Tensor* constant = graph_.constant(node.inputs[i]);
      if (constant == nullptr || constant->shape().size() != 1 || !dims->back().surely_equals(constant->shape()[0])) return false;
    }
    const auto axis = node.attributes.find("axis"), stash = node.attributes.find("stash_type");
    const std::int64_t at = axis == node.attributes.end() ? -1 : std::get<std::int64_t>(axis->second);
    return (at == -1 || at + 1 == static_cast<std::int64_t>(dims->size())) && (stash == node.attributes.end() || std::get<std::int64_t>(stash->second) == 1);
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph fuse_skip_normalisation(ir::Graph graph, const PassContext& context) { return Fuser(std::move(graph), context).run(); }

}  // namespace tessera::passes
