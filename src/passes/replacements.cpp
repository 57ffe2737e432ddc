#include "passes/replacements.h"

#include <utility>

namespace tessera::passes {

Replacements::Replacements(const ir::Graph& graph)
    : is_result_(graph.value_count(), false), replacements_(graph.value_count()) {
  for (const ir::ValueId output : graph.outputs()) is_result_[static_cast<std::size_t>(output.index)] = true;
  for (const ir::Variable& variable : graph.variables()) {
    if (variable.update.valid()) is_result_[static_cast<std::size_t>(variable.update.index)] = true;
  }
}

bool Replacements::replace(ir::ValueId value, ir::ValueId by) {
  const auto index = static_cast<std::size_t>(value.index);
  if (index >= replacements_.size() || is_result_[index]) return false;
  replacements_[index] = by;
  return true;
}

void Replacements::apply_to(ir::Node& node) const {
  for (ir::ValueId& input : node.inputs) {
    const auto index = static_cast<std::size_t>(input.index);
    if (input.valid() && index < replacements_.size() && replacements_[index].valid()) input = replacements_[index];
  }
}

void put_operator(ir::Graph& graph, ir::NodeId id, std::string op, std::vector<ir::ValueId> inputs,
                  ir::Attributes attributes) {
  const ir::Node& node = graph.node(id);
  graph.replace_node(id, ir::Node{std::move(op), node.name, std::move(inputs), node.outputs, std::move(attributes), 0});
}

}  // namespace tessera::passes
