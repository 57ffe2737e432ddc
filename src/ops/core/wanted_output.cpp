#include "ops/core/wanted_output.h"

#include "ops/core/infer.h"

namespace tessera::ops {

Term wanted_output(GradientContext& context, std::size_t i) {
  if (context.has_output(i)) return context.output(i);
  ir::Graph& graph = context.builder().graph();
  const ir::NodeId id = graph.value(context.output(0).id()).producer;
  const std::vector<ir::ValueId>& outputs = graph.node(id).outputs;
  if (i >= outputs.size() || !outputs[i].valid()) {
    graph.want_output(id, i);
    infer_node_in_place(graph, id);
  }
  return {context.builder(), graph.node(id).outputs[i]};
}

}  // namespace tessera::ops
