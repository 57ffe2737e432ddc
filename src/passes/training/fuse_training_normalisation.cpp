// Replaces BatchNormalization with the statistics of the batch by tessera::BatchNormTraining, whose gradient reuses the
// statistics, and fuses a sum and a ReLU behind it. If it has been differentiated before, its gradient has a second
// node for the statistics, and the ReLU is not fused.
#include <algorithm>
#include <set>

#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr std::string_view kTraining = "tessera::BatchNormTraining";

// Computes running · momentum + batch · (1 − momentum), in the type of the running statistics, as the value `result`.
void add_running(ir::Graph& graph, ops::GraphBuilder& builder, ValueId running, ValueId batch, double momentum,
                 ValueId result) {
  const DType type = graph.value(running).type.dtype;
  const ValueId kept = builder.add("Mul", {running, builder.scalar(momentum, type)});
  const ValueId taken = builder.add("Mul", {builder.cast(batch, type), builder.scalar(1 - momentum, type)});
  graph.add_node({"Add", "", {kept, taken}, {result}, {}, 0});
}

// The type of the statistics of the batch.
DType statistics_type(const ir::Graph& graph, const ir::Node& node) {
  return graph.value(node.inputs[0]).type.dtype == DType::f64 ? DType::f64 : DType::f32;
}

// Whether the node normalises by the batch. Running statistics of a wider type than those of the batch would lose
// digits.
bool is_training(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "BatchNormalization" || integer_of(node, "training_mode", 0) == 0 || !node.outputs[0].valid())
    return false;
  const DType running = graph.value(node.inputs[3]).type.dtype;
  return running != DType::f64 || statistics_type(graph, node) == DType::f64;
}

void replace_training_mode(ir::Graph& graph, ops::GraphBuilder& builder, NodeId id) {
  const ir::Node node = graph.node(id);
  const ops::AttributeReader reader(node, ops::op_of(node));
  const DType wide = statistics_type(graph, node);
  const ir::ValueType& channels = graph.value(node.inputs[3]).type;
  const ir::ValueType statistic =
      channels.dims ? ir::ValueType::tensor(wide, *channels.dims) : ir::ValueType::tensor(wide);
  std::vector<ValueId> outputs{node.outputs[0]};
  for (const char* name : {"BatchMean", "BatchVariance"})
    outputs.push_back(graph.add_value(graph.fresh_name(name), statistic));
  ir::Node training{
      std::string(kTraining), node.name, {node.inputs[0], node.inputs[1], node.inputs[2]}, outputs, {}, 0};
  training.attributes["epsilon"] = reader.real("epsilon");
  graph.replace_node(id, std::move(training));
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid())
      add_running(graph, builder, node.inputs[2 + i], outputs[i], reader.real("momentum"), node.outputs[i]);
  }
}

// The nodes behind a normalisation that may be fused into it: the sum with an addend, and Relu.
struct Tail {
  NodeId sum, relu;  // invalid: none
  ValueId addend;
  NodeId last() const { return relu.valid() ? relu : sum; }
};

class Fusion {
 public:
  explicit Fusion(ir::Graph& graph) : graph_(graph), uses_(graph.compute_uses()) {}

  // Returns whether anything was fused.
  bool run() {
    bool changed = false;
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      if (graph_.node(id).op == kTraining) changed = fuse(id) || changed;
    }
    return changed;
  }

 private:
  // The only node that uses the value, if it has that operator.
  NodeId only_user(ValueId value, std::string_view op) const {
    const std::vector<NodeId>& users = uses_[static_cast<std::size_t>(value.index)];
    if (users.size() != 1 || is_result(graph_, value) || gone_.contains(users[0]) || graph_.node(users[0]).op != op)
      return {};
    return users[0];
  }

  Tail tail_of(ValueId y) const {
    Tail tail;
    tail.sum = only_user(y, "Add");
    if (tail.sum.valid()) {
      const ir::Node& sum = graph_.node(tail.sum);
      tail.addend = sum.inputs[0] == y ? sum.inputs[1] : sum.inputs[0];
      if (!same_dims(graph_, y, tail.addend)) return {};
      y = sum.outputs[0];
    }
    tail.relu = only_user(y, "Relu");
    return tail;
  }

  // Whether another node normalises the same data for a gradient, which takes its statistics. The two are merged later.
  bool has_twin(const ir::Node& node) const {
    const std::vector<NodeId>& users = uses_[static_cast<std::size_t>(node.inputs[0].index)];
    return std::ranges::count_if(users, [&](NodeId id) {
             const ir::Node& other = graph_.node(id);
             return other.op == kTraining && other.inputs[0] == node.inputs[0];
           }) > 1;
  }

  bool fuse(NodeId id) {
    ir::Node node = graph_.node(id);
    if (node.inputs.size() > 3 || integer_of(node, "relu", 0) != 0 || !node.outputs[0].valid() || has_twin(node))
      return false;
    const Tail tail = tail_of(node.outputs[0]);
    if (!tail.last().valid()) return false;
    if (tail.sum.valid()) node.inputs.push_back(tail.addend);
    if (tail.relu.valid()) node.attributes["relu"] = std::int64_t{1};
    node.outputs[0] = graph_.node(tail.last()).outputs[0];
    graph_.remove_node(id);
    if (tail.sum.valid() && tail.relu.valid()) {
      graph_.remove_node(tail.sum);
      gone_.insert(tail.sum);
    }
    graph_.replace_node(tail.last(), std::move(node));
    return true;
  }

  ir::Graph& graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::set<NodeId> gone_;  // sums that became part of a normalisation
};

}  // namespace

ir::Graph fuse_training_normalisation(ir::Graph graph, const PassContext&) {
  ops::GraphBuilder builder(graph);
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (const NodeId id : order) {
    if (!is_training(graph, graph.node(id))) continue;
    replace_training_mode(graph, builder, id);
    changed = true;
  }
  changed = Fusion(graph).run() || changed;
  if (!changed) return graph;
  graph.sort_topologically();
  ops::infer_graph(graph);
  return graph;
}

}  // namespace tessera::passes
