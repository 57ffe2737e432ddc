#include "train/net/batch_norm.h"

#include <algorithm>
#include <array>

#include "ir/constant_role.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "train/net/layer_weights.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr const char* kOperands[] = {"", "scale", "bias", "running_mean", "running_var"};

// Whether the node normalises by given statistics.
bool is_batch_norm(const ir::Node& node) {
  if (node.op != "BatchNormalization" || node.inputs.size() != 5) return false;
  const auto training = node.attributes.find("training_mode");
  return training == node.attributes.end() || std::get<std::int64_t>(training->second) == 0;
}

std::vector<NodeId> batch_norms(const ir::Graph& graph) {
  std::vector<NodeId> found;
  for (const NodeId id : graph.order()) {
    if (is_batch_norm(graph.node(id))) found.push_back(id);
  }
  return found;
}

// Whether the statistics are constants whose names match no pattern of `frozen`.
bool may_move_statistics(const ir::Graph& graph, NodeId id, const std::vector<std::string>& frozen) {
  const std::vector<ValueId>& inputs = graph.node(id).inputs;
  return std::ranges::all_of(std::array{inputs[3], inputs[4]}, [&](ValueId input) {
    return graph.is_constant(input) && !matches_any(frozen, graph.value(input).name);
  });
}

RunningStatistic make_variable(ir::Graph& graph, NodeId id, std::size_t input) {
  const ValueId constant = graph.node(id).inputs[input];
  const std::string name = graph.value(constant).name;
  graph.value(constant).name = name + "/initial";
  const ValueId read = graph.add_variable(name, *graph.constant(constant));
  graph.node(id).inputs[input] = read;
  const std::vector<ValueId>& outputs = graph.node(id).outputs;
  const ops::AttributeReader reader(graph.node(id), ops::op_of(graph.node(id)));
  return {name, read, outputs.size() > input - 2 ? outputs[input - 2] : ValueId{},
          static_cast<double>(reader.real("momentum"))};
}

}  // namespace

ir::Graph separate_batch_norm(ir::Graph model) {
  const std::vector<std::vector<NodeId>> uses = model.compute_uses();
  for (const NodeId id : batch_norms(model)) {
    for (std::size_t i = 1; i < 5; ++i) {
      const ValueId given = model.node(id).inputs[i], source = passes::source_of(model, given);
      const Tensor* constant = model.constant(source);
      if (constant == nullptr) continue;
      const bool alone = uses[static_cast<std::size_t>(given.index)].size() == 1 && !model.is_output(given);
      if (given == source && alone) continue;
      if (given != source && alone) {
        model.become_constant(given, *constant);
        ir::copy_role(model, source, given);
        continue;
      }
      const std::string prefix =
          model.node(id).name.empty() ? model.value(model.node(id).outputs[0]).name : model.node(id).name;
      const std::string name = prefix + "." + kOperands[i];
      const ValueId own = model.add_constant(*constant, model.find_value(name).valid() ? model.fresh_name(name) : name);
      ir::copy_role(model, source, own);
      model.node(id).inputs[i] = own;
    }
  }
  return model;
}

std::vector<RunningStatistic> train_batch_norm(ir::Graph& graph, const std::vector<std::string>& frozen) {
  std::vector<RunningStatistic> statistics;
  for (const NodeId id : batch_norms(graph)) {
    if (!may_move_statistics(graph, id, frozen)) continue;
    graph.node(id).attributes["training_mode"] = std::int64_t{1};
    for (const std::size_t output : {std::size_t{1}, std::size_t{2}}) graph.want_output(id, output);
    for (const std::size_t input : {std::size_t{3}, std::size_t{4}})
      statistics.push_back(make_variable(graph, id, input));
  }
  ops::infer_graph(graph);
  graph = passes::fuse_training_normalisation(std::move(graph), {});
  return statistics;
}

std::vector<RunningStatistic> read_running_statistics(ir::Graph& graph, const std::vector<std::string>& frozen) {
  std::vector<RunningStatistic> statistics;
  for (const NodeId id : batch_norms(graph)) {
    if (!may_move_statistics(graph, id, frozen)) continue;
    for (const std::size_t input : {std::size_t{3}, std::size_t{4}})
      statistics.push_back(make_variable(graph, id, input));
  }
  return statistics;
}

std::set<ValueId> batch_norm_constants(const ir::Graph& graph, bool all) {
  std::set<ValueId> constants;
  for (const NodeId id : batch_norms(graph)) {
    for (std::size_t i = all ? 1 : 3; i < 5; ++i) {
      if (const ValueId input = graph.node(id).inputs[i]; graph.is_constant(input)) constants.insert(input);
    }
  }
  return constants;
}

}  // namespace tessera::train
