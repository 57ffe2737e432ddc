// Fuses chains and small graphs of element-wise operators into one node that reads its operands and writes its result
// once. A fused node must have the result's shape and no use outside; a DequantizeLinear is fused into every node that
// reads it.
#include <algorithm>
#include <map>
#include <set>

#include "ops/element_wise/element_wise_program.h"
#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;
using Steps = std::vector<ops::ElementWiseStep>;

constexpr std::size_t kMostInputs = 8;

class ElementWiseFuser {
 public:
  ElementWiseFuser(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (std::size_t i = 0; i < order.size(); ++i) place_[order[i]] = i;
    // Visits in reverse order, so that the last node of a chain takes all of it.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (!taken_.contains(*id)) fuse(*id);
    }
    for (auto& [root, node] : fused_) graph_.replace_node(root, std::move(node));
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  struct Group {
    std::map<std::size_t, NodeId> nodes;  // by their places
    std::set<std::size_t> copied;         // those of them that others use too
    std::size_t steps = 0;
    bool contains(std::size_t place) const { return nodes.contains(place); }
    bool owns(std::size_t place) const { return nodes.contains(place) && !copied.contains(place); }
  };

  Steps steps_of(NodeId id) const {
    return graph_.node(id).op.empty() ? Steps{} : ops::element_wise_steps(graph_, graph_.node(id));
  }

  // The operands of steps from outside of them.
  static std::vector<ValueId> operands(const ir::Node& node, const Steps& steps) {
    std::vector<ValueId> values;
    for (const ops::ElementWiseStep& step : steps) {
      for (std::size_t i = 0; i < step.operand_count(); ++i) {
        if (static_cast<std::size_t>(step.operands[i]) < node.inputs.size())
          values.push_back(node.inputs[static_cast<std::size_t>(step.operands[i])]);
      }
    }
    return values;
  }

  // The number in a constant of one float element, which becomes a step of its own.
  std::optional<float> number(ValueId value) const {
    const std::optional<double> number = number_of(graph_, value);
    return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
  }

  // Values that the group reads, in order of their first use: either the numbers, or all others.
  std::vector<ValueId> read_by(const Group& group, bool numbers) const {
    std::vector<ValueId> values;
    for (const auto& [place, id] : group.nodes) {
      for (const ValueId value : operands(graph_.node(id), steps_of(id))) {
        const bool inside =
            graph_.value(value).origin == ir::Origin::node && group.contains(place_.at(graph_.value(value).producer));
        if (!inside && number(value).has_value() == numbers && std::ranges::find(values, value) == values.end())
          values.push_back(value);
      }
    }
    return values;
  }

  bool used_only_in(const Group& group, ValueId value) const {
    if (is_result(graph_, value) || read_.contains(value)) return false;
    return std::ranges::all_of(uses_[static_cast<std::size_t>(value.index)],
                               [&](NodeId user) { return group.owns(place_.at(user)); });
  }

  // Grows from the last node towards the inputs: all users of a node have been visited before the node.
  Group grow(NodeId root, const Steps& own) const {
    Group group{{{place_.at(root), root}}, {}, own.size()};
    std::set<std::size_t> open;
    const auto add_producers = [&](NodeId id, const Steps& steps) {
      for (const ValueId value : operands(graph_.node(id), steps)) {
        if (graph_.value(value).origin == ir::Origin::node) open.insert(place_.at(graph_.value(value).producer));
      }
    };
    add_producers(root, own);
    const std::vector<NodeId>& order = graph_.order();
    while (!open.empty()) {
      const std::size_t place = *open.rbegin();
      open.erase(place);
      const NodeId id = order[place];
      const Steps steps = steps_of(id);
      if (steps.empty()) continue;
      const ValueId result = graph_.node(id).outputs[0];
      if (!same_dims(graph_, result, graph_.node(root).outputs[0])) continue;
      const bool copied = !used_only_in(group, result);
      if (copied && graph_.node(id).op != "DequantizeLinear") continue;
      Group larger = group;
      if (copied) larger.copied.insert(place);
      larger.nodes.emplace(place, id);
      larger.steps += steps.size();
      // Each number is a step too.
      if (read_by(larger, false).size() > kMostInputs ||
          larger.steps + read_by(larger, true).size() > ops::kMostElementWiseSteps)
        continue;
      group = std::move(larger);
      add_producers(id, steps);
    }
    return group;
  }

  ir::Node node_of(const Group& group, NodeId root) const {
    const std::vector<ValueId> inputs = read_by(group, false);
    std::map<ValueId, std::int64_t> number_of_value;
    for (std::size_t i = 0; i < inputs.size(); ++i) number_of_value.emplace(inputs[i], static_cast<std::int64_t>(i));
    Steps program;
    const auto next = [&] { return static_cast<std::int64_t>(inputs.size() + program.size()); };
    const auto value_number = [&](ValueId value) {
      const auto [found, is_new] = number_of_value.try_emplace(value, next());
      if (is_new) program.push_back({ops::find_element_wise_form("Constant"), {-1, -1, -1}, {*number(value), 0}});
      return found->second;
    };
    for (const auto& [place, id] : group.nodes) {
      const ir::Node& node = graph_.node(id);
      std::vector<std::int64_t> results;  // numbers of the node's own steps
      for (ops::ElementWiseStep step : steps_of(id)) {
        for (std::size_t i = 0; i < step.operand_count(); ++i) {
          const auto operand = static_cast<std::size_t>(step.operands[i]);
          step.operands[i] =
              operand < node.inputs.size() ? value_number(node.inputs[operand]) : results[operand - node.inputs.size()];
        }
        results.push_back(next());
        program.push_back(step);
      }
      number_of_value[node.outputs[0]] = results.back();
    }
    const ir::Node& last = graph_.node(root);
    return {std::string(ops::element_wise.name),   last.name, inputs, last.outputs,
            ops::element_wise_attributes(program), 0};
  }

  void fuse(NodeId root) {
    const Steps own = steps_of(root);
    if (own.empty() || dims_of(graph_, graph_.node(root).outputs[0]) == nullptr) return;
    const Group group = grow(root, own);
    if (group.nodes.size() < 2) return;
    ir::Node node = node_of(group, root);
    // A constant that became a number has lost its rank, so another operand must have the result's shape.
    if (std::ranges::none_of(node.inputs, [&](ValueId input) { return same_dims(graph_, input, node.outputs[0]); }))
      return;
    if (!context_.keeps_composite || !context_.keeps_composite(graph_, node)) return;
    for (const auto& [place, id] : group.nodes) {
      if (group.owns(place)) taken_.insert(id);
    }
    read_.insert(node.inputs.begin(), node.inputs.end());
    fused_.emplace_back(root, std::move(node));
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
  std::map<NodeId, std::size_t> place_;
  std::set<NodeId> taken_;
  std::set<ValueId> read_;                          // by nodes to come
  std::vector<std::pair<NodeId, ir::Node>> fused_;  // in the place of which node
};

}  // namespace

ir::Graph fuse_element_wise(ir::Graph graph, const PassContext& context) {
  return ElementWiseFuser(std::move(graph), context).run();
}

}  // namespace tessera::passes
