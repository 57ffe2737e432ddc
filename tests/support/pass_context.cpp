#include "support/pass_context.h"

#include "backends/cpu/cpu_device.h"
#include "backends/reference/reference_device.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "plan/choose_kernel.h"
#include "runtime/evaluate.h"

namespace tessera::test {

passes::PassContext cpu_pass_context() {
  passes::PassContext result;
  result.evaluate = [](const ir::Node& node, std::span<const Value> inputs) { return runtime::evaluate_node(backends::reference_device(), node, inputs, {}); };
  result.keeps_composite = [](const ir::Graph& graph, const ir::Node& node) { return plan::may_accept(backends::cpu_device(), graph, node); };
  return result;
}

ir::Graph parsed(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return graph;
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const auto activation = node.attributes.find("activation");
    const bool added = node.op == "tessera::ChannelsLastConv" && node.inputs.size() > 3 && node.inputs[3].valid();
    names.push_back(node.op + (added ? " + Z" : "") + (activation == node.attributes.end() ? "" : " " + std::get<std::string>(activation->second)));
  }
  return names;
}

}  // namespace tessera::test
