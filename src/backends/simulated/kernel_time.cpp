#include "backends/simulated/kernel_time.h"

#include "backends/simulated/machine.h"
#include "cost/alignment.h"
#include "cost/roofline.h"
#include "cost/work.h"

namespace tessera::backends::simulated {
namespace {

ir::ValueType type_of(const ops::TensorType& type) {
  return ir::ValueType::tensor(type.dtype, type.shape);
}

// A graph of only this node, as input for the cost model.
ir::Graph graph_of(const ops::NodeView& view) {
  ir::Graph graph;
  ir::Node node = view.node();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid() || i >= view.input_count()) node.inputs[i] = {};
    else if (const Tensor* constant = view.constant(i)) node.inputs[i] = graph.add_constant(*constant);
    else node.inputs[i] = graph.add_input("", type_of(view.input(i)));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const bool known = i < view.output_count() && view.output(i).dtype != DType::undefined;
    node.outputs[i] = graph.add_value("", known ? type_of(view.output(i)) : ir::ValueType{});
  }
  graph.add_node(std::move(node));
  return graph;
}

}  // namespace

std::int64_t kernel_time_ns(const ops::NodeView& view, const cost::DeviceProfile& profile) {
  const ir::Graph graph = graph_of(view);
  const std::optional<cost::Work> work = cost::work_of(graph, graph.order().front());
  if (!work) return 0;
  const cost::Estimate estimate = cost::estimate(*work, profile, cost::align(*work, profile).utilisation());
  return nanoseconds(estimate.seconds - estimate.overhead_seconds);
}

}  // namespace tessera::backends::simulated
