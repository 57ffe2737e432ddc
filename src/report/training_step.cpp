#include "report/training_step.h"

#include <algorithm>

#include "base/error.h"
#include "ir/graph.h"
#include "ops/builder.h"
#include "passes/differentiate.h"

namespace tessera::report {
namespace {

using ir::ValueId;

// Float constants of rank 1 or more become variables of the same value.
std::vector<ValueId> make_weights_variable(ir::Graph& graph, std::vector<std::string>& names) {
  std::vector<ValueId> weights, replacements(graph.value_count());
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant == nullptr || !is_float(constant->dtype()) || constant->rank() == 0) continue;
    names.push_back(graph.value(id).name + ".variable");
    weights.push_back(graph.add_variable(names.back(), *constant));
    replacements[i] = weights.back();
  }
  replacements.resize(graph.value_count());
  graph.replace_uses(replacements);
  return weights;
}

}  // namespace

Model training_step(const Model& model) {
  ir::Graph graph = model.graph();
  std::vector<std::string> names;
  const std::vector<ValueId> weights = make_weights_variable(graph, names);
  const auto& outputs = graph.outputs();
  const auto loss = std::ranges::find_if(outputs, [&](ValueId id) { return is_float(graph.value(id).type.dtype); });
  require(!weights.empty() && loss != outputs.end(), ErrorKind::invalid_argument, "the model has nothing to train: {}",
          weights.empty() ? "no float weights" : "no float output");
  const std::vector<ValueId> gradients = passes::build_gradients(graph, *loss, weights);
  ops::GraphBuilder builder(graph);
  std::vector<ValueId> operands{builder.scalar(0.01), builder.scalar(1, DType::i64)};
  operands.insert(operands.end(), weights.begin(), weights.end());
  operands.insert(operands.end(), gradients.begin(), gradients.end());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Tensor zeros(builder.dtype(weights[i]), *builder.type(weights[i]).shape());
    std::fill_n(static_cast<std::byte*>(zeros.mutable_raw()), zeros.bytes(), std::byte{0});
    names.push_back(graph.value(weights[i]).name + ".momentum");
    operands.push_back(graph.add_variable(names.back(), std::move(zeros)));
  }
  const std::vector<ValueId> updates = builder.add_multi(
      "ai.onnx.preview.training::Momentum", std::move(operands), 2 * weights.size(),
      {{"alpha", 0.9f}, {"beta", 1.0f}, {"mode", std::string("standard")}, {"norm_coefficient", 0.0f}});
  for (std::size_t i = 0; i < names.size(); ++i) graph.set_variable_update(names[i], updates[i]);
  graph.sort_topologically();
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

}  // namespace tessera::report
