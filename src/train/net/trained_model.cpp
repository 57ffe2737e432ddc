#include "train/net/trained_model.h"

#include "ir/graph.h"

namespace tessera::train {

Model with_weights(const Model& model, const std::map<std::string, Tensor>& weights) {
  auto graph = std::make_shared<ir::Graph>(model.graph());
  std::vector<ir::ValueId> replacements(graph->value_count());
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    if (!graph->is_constant(id)) continue;
    const std::string name = graph->value(id).name;
    const auto found = weights.find(name);
    if (found == weights.end()) continue;
    graph->value(id).name.clear();
    replacements[i] = graph->add_constant(found->second.clone(), name);  // takes over the role, which is stored by name
  }
  replacements.resize(graph->value_count());
  graph->replace_uses(replacements);
  graph->remove_dead_and_compact();
  return Model(std::move(graph));
}

}  // namespace tessera::train
