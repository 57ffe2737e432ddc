#include "cost/fusion.h"

#include <map>

#include "ops/op_table.h"

namespace tessera::cost {

std::vector<Fusion> find_fusions(const Evaluation& evaluation, const ir::Graph& graph) {
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  std::map<ir::NodeId, std::size_t> layer_of;
  for (std::size_t i = 0; i < evaluation.layers.size(); ++i) layer_of[evaluation.layers[i].work.node] = i;
  std::vector<Fusion> fusions;
  std::vector<std::size_t> head(evaluation.layers.size());  // the layer into which each one was fused; itself at first
  std::vector<Work> fused;
  for (std::size_t i = 0; i < evaluation.layers.size(); ++i) {
    head[i] = i;
    fused.push_back(evaluation.layers[i].work);
  }
  for (std::size_t i = 0; i < evaluation.layers.size(); ++i) {
    const Layer& layer = evaluation.layers[i];
    if (!layer.work.element_wise) continue;
    for (const ir::ValueId input : graph.node(layer.work.node).inputs) {
      if (!input.valid() || graph.value(input).origin != ir::Origin::node || graph.is_output(input)) continue;
      if (uses[static_cast<std::size_t>(input.index)].size() != 1) continue;
      const auto producer = layer_of.find(graph.value(input).producer);
      if (producer == layer_of.end()) continue;
      const Work& before = evaluation.layers[producer->second].work;
      // Only an operator that writes each element once, as the last thing it does, can continue with it in registers.
      const bool normalises = ops::op_of(graph.node(before.node)).has(ops::Trait::normalises);
      if (!normalises && !before.product && !before.element_wise) continue;
      const std::size_t into = head[producer->second];
      const double between = before.cost.bytes_written;
      Work both = fused[into];
      both.cost.operations += layer.work.cost.operations;
      both.cost.bytes_read += layer.work.cost.bytes_read - between;
      both.cost.bytes_written += layer.work.cost.bytes_written - between;
      const double utilisation = evaluation.layers[into].alignment.utilisation();
      const double apart = estimate(fused[into], evaluation.device, utilisation).seconds + layer.estimate.seconds;
      const double gain = apart - estimate(both, evaluation.device, utilisation).seconds;
      if (gain <= 0) continue;
      fusions.push_back({i, into, gain, 2 * between});
      fused[into] = both;
      head[i] = into;
      break;
    }
  }
  return fusions;
}

double saved_bytes(std::span<const Fusion> fusions) {
  double bytes = 0;
  for (const Fusion& fusion : fusions) bytes += fusion.saved_bytes;
  return bytes;
}

}  // namespace tessera::cost
