#include "report/inspect/pass_effects.h"

#include "ops/core/infer.h"
#include "passes/pipeline.h"
#include "runtime/session/environment.h"

namespace tessera::report {

std::string_view pass_summary(std::string_view name) {
  for (const passes::Pass& pass : passes::all_passes()) {
    if (pass.name == name) return pass.summary;
  }
  return "";
}

std::vector<PassEffect> pass_effects(const Model& model, const SessionOptions& options, const plan::Plan& plan) {
  if (runtime::is_optimised_for(model, options)) return {};
  const runtime::ProgramEnvironment environment = runtime::make_environment(model, options);
  std::vector<PassChange> changes;
  ir::Graph graph = passes::run_pipeline(model.graph(), environment.pass_context, environment.pipeline, &changes);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    graph.value(graph.inputs()[i]).type = plan.graph.value(plan.graph.inputs()[i]).type;
  }
  ops::infer_graph(graph);
  passes::run_pipeline(std::move(graph), environment.pass_context, environment.pipeline, &changes);
  std::vector<PassEffect> effects;
  for (PassChange& change : changes) {
    if (!change.changed) continue;
    const std::string_view summary = pass_summary(change.pass);
    effects.push_back({std::move(change.pass), summary, change.nodes_before, change.nodes_after});
  }
  return effects;
}

}  // namespace tessera::report
