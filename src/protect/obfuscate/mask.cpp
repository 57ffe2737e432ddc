// Masks of weights.
#include <algorithm>

#include "ops/core/node_operands.h"
#include "ops/values/unmask.h"
#include "protect/obfuscate/passes.h"

namespace tessera::protect {
namespace {

constexpr std::int64_t kLeastElements = 16;
// The cost of unmasking a weight and laying it out for a kernel in each run, in operations of a layer.
constexpr double kOperationsPerWeight = 300;
// The share of a run's operations that masks may cost up to degree 2.
constexpr double kShare = 0.01;

struct Candidate {
  ir::NodeId node;
  std::size_t input = 0;
  double operations = 0, elements = 0;
};

bool is_weight(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  return constant != nullptr && constant->dtype() == DType::f32 && constant->shape().size() >= 2 &&
         constant->elements() >= kLeastElements && constant->has_data();
}

double operations_of(const ir::Graph& graph, const ir::Node& node) {
  const ops::NodeOperands operands(graph, node);
  return operands.are_concrete(node) ? ops::cost_of(operands.view(node)).operations : 0;
}

std::vector<Candidate> find_candidates(const ir::Graph& graph, double& operations) {
  std::vector<Candidate> found;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (!ir::subgraphs_of(node).empty()) continue;
    const double own = operations_of(graph, node);
    operations += own;
    // Operators on indices look rows up, and would unmask whole tables for a few of them.
    const bool computes = ops::op_of(node).operations != nullptr && !node.inputs.empty() && node.inputs[0].valid() &&
                          !graph.is_constant(node.inputs[0]) && is_float(graph.value(node.inputs[0]).type.dtype);
    if (!computes || ops::states_attribute(node, "precision") || ops::states_attribute(node, "precisions")) continue;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && is_weight(graph, node.inputs[i]))
        found.push_back({id, i, own, static_cast<double>(graph.constant(node.inputs[i])->elements())});
    }
  }
  return found;
}

// The candidates to mask: all of them, or those that cost the least share of their layer, as long as all of them cost
// no more than kShare of the run; the first one, whose operands nothing else scrambles, may cost ten times as much.
std::vector<Candidate> choose(std::vector<Candidate> candidates, double operations, bool all) {
  if (all || candidates.empty()) return candidates;
  std::vector<Candidate> chosen;
  double left = kShare * operations;
  const double first = candidates[0].elements * kOperationsPerWeight;
  if (operations == 0 || first <= 10 * left) {
    chosen.push_back(candidates[0]);
    left -= first;
  }
  std::stable_sort(candidates.begin() + 1, candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.elements * b.operations < b.elements * a.operations;
  });
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    left -= candidates[i].elements * kOperationsPerWeight;
    if (left < 0) break;
    chosen.push_back(candidates[i]);
  }
  return chosen;
}

}  // namespace

ir::Graph mask_weights(ir::Graph graph, Obfuscation& state) {
  double operations = 0;
  std::vector<Candidate> candidates = find_candidates(graph, operations);
  const auto can_mask = [&](const Candidate& candidate) {
    if (!state.accepts) return true;
    const ir::Node& node = graph.node(candidate.node);
    if (!state.accepts(graph, node)) return true;  // no kernel of its own in any case
    ir::Node computed = node;
    ir::Graph probe = graph;
    computed.inputs[candidate.input] = probe.add_value("", graph.value(node.inputs[candidate.input]).type);
    return state.accepts(probe, computed);
  };
  std::erase_if(candidates, [&](const Candidate& candidate) { return !can_mask(candidate); });
  for (const Candidate& candidate : choose(std::move(candidates), operations, state.degree > 2)) {
    const ir::Node& node = graph.node(candidate.node);
    const ir::ValueId value = node.inputs[candidate.input], first = node.inputs[0];
    std::vector<std::int64_t> key(ops::Mask::kWords);
    for (std::int64_t& word : key) word = static_cast<std::int64_t>(state.dice.next() & 0xFFFFFFFF);
    Tensor masked = graph.constant(value)->clone();
    ops::Mask::from(key).apply(masked.raw(), masked.mutable_raw(), 0, static_cast<std::uint64_t>(masked.elements()));
    state.masked_bytes += masked.bytes();
    ++state.masked_weights;
    const ir::ValueType type = graph.value(value).type;
    const Shape shape = masked.shape();
    masked = masked.reshaped({masked.elements()});  // the shape would tell what kind of layer it is
    const ir::ValueId plain = graph.add_op("tessera::Unmask", {graph.add_constant(std::move(masked)), first},
                                           {{"key", std::move(key)}, {"shape", shape}});
    graph.value(plain).type = type;
    graph.node(candidate.node).inputs[candidate.input] = plain;
  }
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::protect
