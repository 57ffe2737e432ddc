// Fuses a sum and its LayerNormalization or RMSNormalization into one operator that returns both, unless a layer before
// them can fuse the sum.
#include <optional>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The output of the fused operators that is the sum.
constexpr std::size_t kSum = 3;

class SkipNormalisationFuser {
 public:
  SkipNormalisationFuser(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    if (!context_.keeps_composite) return std::move(graph_);
    rewrite_each(graph_, [&](NodeId id) {
      const std::string& op = graph_.node(id).op;
      return (op == "LayerNormalization" || op == "RMSNormalization") && fuse(id);
    });
    return std::move(graph_);
  }

 private:
  bool fuse(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ir::Node* add = producer_of(graph_, node.inputs[0], "Add");
    if (add == nullptr || !normalises_rows(graph_, node) || !same_dims(graph_, add->inputs[0], add->inputs[1]))
      return false;
    const ValueId sum = node.inputs[0];
    const auto epsilon = node.attributes.find("epsilon");
    ir::Node fused{node.op == "LayerNormalization" ? "com.microsoft::SkipLayerNormalization"
                                                   : "com.microsoft::SkipSimplifiedLayerNormalization",
                   node.name,
                   {add->inputs[0], add->inputs[1]},
                   {node.outputs[0]},
                   {{"epsilon", epsilon == node.attributes.end() ? 1e-5f : std::get<float>(epsilon->second)}},
                   0};
    fused.inputs.insert(fused.inputs.end(), node.inputs.begin() + 1, node.inputs.end());
    const bool wants_sum = is_result(graph_, sum) || uses_[static_cast<std::size_t>(sum.index)].size() > 1;
    if (wants_sum) {
      fused.outputs.resize(kSum + 1);
      fused.outputs[kSum] = sum;
    }
    if (!context_.keeps_composite(graph_, fused)) return false;
    if (wants_sum) graph_.remove_node(graph_.value(sum).producer);
    graph_.replace_node(id, std::move(fused));
    return true;
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph fuse_skip_normalisation(ir::Graph graph, const PassContext& context) {
  return SkipNormalisationFuser(std::move(graph), context).run();
}

}  // namespace tessera::passes
