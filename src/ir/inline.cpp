#include "ir/inline.h"

#include "base/assert.h"

namespace tessera::ir {

std::vector<ValueId> append_inlined(Graph& graph, const Graph& body, std::span<const ValueId> arguments) {
  TESSERA_ASSERT(arguments.size() == body.inputs().size(), "inlining with a wrong number of arguments");
  TESSERA_ASSERT(body.variables().empty(), "a body with variables cannot be inlined");
  std::vector<ValueId> mapped(body.value_count());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    mapped[static_cast<std::size_t>(body.inputs()[i].index)] = arguments[i];
  auto map_value = [&](ValueId id) -> ValueId {
    if (!id.valid()) return {};
    ValueId& target = mapped[static_cast<std::size_t>(id.index)];
    if (const Tensor* constant = body.constant(id); constant != nullptr && !target.valid()) {
      target = graph.add_constant(*constant, graph.fresh_name(body.value(id).name));
    }
    return target;
  };
  for (NodeId id : body.order()) {
    Node copy = body.node(id);
    for (ValueId& input : copy.inputs) input = map_value(input);
    for (ValueId& output : copy.outputs) {
      if (!output.valid()) continue;
      const ValueInfo& info = body.value(output);
      const ValueId fresh = graph.add_value(graph.fresh_name(info.name), info.type);
      mapped[static_cast<std::size_t>(output.index)] = fresh;
      output = fresh;
    }
    graph.add_node(std::move(copy));
  }
  std::vector<ValueId> outputs;
  for (ValueId output : body.outputs()) outputs.push_back(map_value(output));
  return outputs;
}

}  // namespace tessera::ir
