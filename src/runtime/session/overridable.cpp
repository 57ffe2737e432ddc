#include "runtime/session/overridable.h"

#include <memory>

#include "ir/overridable.h"
#include "ops/core/infer.h"

namespace tessera::runtime {

std::vector<ValueDescription> overridable_inputs(const Model& model) {
  auto graph = std::make_shared<ir::Graph>();
  for (const auto& [name, type] : ir::overridable_constants(model.graph())) graph->add_input(name, type);
  return Model(std::move(graph)).inputs();
}

Model with_inputs(const Model& model, const std::vector<std::string>& names) {
  auto graph = std::make_shared<ir::Graph>(ir::with_inputs(model.graph(), names));
  ops::infer_graph(*graph);
  return Model(std::move(graph));
}

}  // namespace tessera::runtime
