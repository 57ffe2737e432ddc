#include "train/run/diagnosis.h"

#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "ir/type.h"

namespace tessera::train {
namespace {

// The first element that is not finite, such as "nan at [3, 0]".
std::optional<std::string> fault_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return std::nullopt;
  const std::span<const float> values = tensor.values<float>();
  std::int64_t count = 0, first = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (first < 0) first = static_cast<std::int64_t>(i);
    ++count;
  }
  if (first < 0) return std::nullopt;
  std::string at;
  std::int64_t rest = first;
  for (auto size = tensor.shape().rbegin(); size != tensor.shape().rend(); ++size) {
    at = std::to_string(rest % *size) + (at.empty() ? "" : ", ") + at;
    rest /= *size;
  }
  const float value = values[static_cast<std::size_t>(first)];
  return fmt::format("{} at [{}]; {} of {} elements are not finite", std::isnan(value) ? "nan" : "infinite", at, count,
                     tensor.elements());
}

// The step with the results of all nodes as outputs.
ir::Graph with_all_outputs(const ir::Graph& step) {
  ir::Graph graph = step;
  for (const ir::Variable& variable : step.variables()) graph.set_variable_update(variable.name, {});
  std::vector<ir::ValueId> outputs;
  std::set<std::string> names;
  for (const ir::NodeId id : graph.order()) {
    for (const ir::ValueId output : graph.node(id).outputs) {
      if (!output.valid()) continue;
      ir::ValueInfo& value = graph.value(output);
      if (!value.type.is_tensor() || value.type.dtype != DType::f32) continue;
      if (value.name.empty() || names.contains(value.name)) value.name = graph.fresh_name("value");
      names.insert(value.name);
      outputs.push_back(output);
    }
  }
  graph.set_outputs(std::move(outputs));
  return graph;
}

}  // namespace

std::string first_not_finite(const ir::Graph& step, const NamedValues& inputs,
                             const std::map<std::string, Tensor>& variables, const SessionOptions& options,
                             const RunOptions& how) {
  for (const auto& [name, value] : inputs) {
    if (!value.is_tensor()) continue;
    if (const auto fault = fault_of(value.tensor())) return fmt::format("the data: input '{}' is {}", name, *fault);
  }
  for (const auto& [name, value] : variables) {
    if (const auto fault = fault_of(value)) return fmt::format("the weights: '{}' is {}", name, *fault);
  }
  const ir::Graph graph = with_all_outputs(step);
  SessionOptions alone = options;
  alone.variables = nullptr;
  Session session(Model(std::make_shared<const ir::Graph>(graph)), alone);
  for (const auto& [name, value] : variables) session.set_variable(name, value);
  const NamedValues values = session.run(inputs, how);
  for (const ir::NodeId id : graph.order()) {
    for (const ir::ValueId output : graph.node(id).outputs) {
      const auto found = output.valid() ? values.find(graph.value(output).name) : values.end();
      if (found == values.end()) continue;
      if (const auto fault = fault_of(found->second.tensor()))
        return fmt::format("'{}', the result of {}, is {}", graph.value(output).name, ir::describe(graph, id), *fault);
    }
  }
  return "";
}

}  // namespace tessera::train
