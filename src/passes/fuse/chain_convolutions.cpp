// Fuses consecutive convolutions into one node that computes a few rows of each at a time, so that intermediate values
// stay in the cache. An intermediate value must have no use outside and exceed a core's caches; by the cost model
// (cost/machine.h), writing it and reading it again must take a good part of the time.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ops/convolutions/conv_chain.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// The least share of the work that the saved transfers of a value must be worth.
constexpr double kLeastGain = 0.05;

// Nodes by their places in the order; only the last one's result is used outside of the group.
using Group = std::map<std::size_t, NodeId>;

class Chainer {
 public:
  Chainer(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId>& order = graph_.order();
    for (std::size_t place = 0; place < order.size(); ++place) {
      if (!is_stage(order[place])) continue;
      group_of_.emplace(order[place], groups_.size());
      groups_.push_back({{place, order[place]}});
    }
    std::vector<NodeId> links = worthwhile_links();
    // Repeats, because one merge of groups can make another one possible.
    while (std::erase_if(links, [&](NodeId id) { return join(id); }) > 0) {
    }
    std::vector<std::pair<NodeId, ir::Node>> chains;
    for (const Group& group : groups_) {
      if (group.size() > 1) chains.emplace_back(group.rbegin()->second, node_of(group));
    }
    for (auto& [last, node] : chains) graph_.replace_node(last, std::move(node));
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  // A convolution of images whose types are concrete.
  bool is_stage(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.op != "tessera::ChannelsLastConv" || !node.outputs[0].valid()) return false;
    const auto concrete = [&](ValueId value) {
      if (!value.valid()) return true;
      const ir::ValueType& type = graph_.value(value).type;
      return (type.dtype == DType::f32 || type.dtype == DType::bf16) && type.is_tensor() && type.shape().has_value();
    };
    return std::ranges::all_of(node.inputs, concrete) && concrete(node.outputs[0]) &&
           dims_of(graph_, node.inputs[0])->size() == 4;
  }

  std::int64_t elements(ValueId value) const { return element_count(*graph_.value(value).type.shape()); }
  double operations(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const std::int64_t outputs = std::max<std::int64_t>(1, graph_.value(node.inputs[1]).type.shape()->front());
    return 2.0 * static_cast<double>(elements(node.outputs[0])) *
           static_cast<double>(elements(node.inputs[1]) / outputs);
  }
  std::int64_t bytes(ValueId value) const { return elements(value) * bits_of(graph_.value(value).type.dtype) / 8; }
  const std::vector<NodeId>& users(NodeId id) const {
    return uses_[static_cast<std::size_t>(graph_.node(id).outputs[0].index)];
  }

  // Stages whose results gain by staying in the cache, judged by their sizes and the work on them; the largest first.
  std::vector<NodeId> worthwhile_links() const {
    std::vector<NodeId> links;
    for (const Group& group : groups_) {
      const NodeId id = group.begin()->second;
      const ValueId result = graph_.node(id).outputs[0];
      const auto reads = [&](NodeId user) {  // as data or to add it
        const std::vector<ValueId>& inputs = graph_.node(user).inputs;
        return group_of_.contains(user) && inputs[1] != result && (inputs.size() < 3 || inputs[2] != result);
      };
      if (!users(id).empty() && !is_result(graph_, result) && std::ranges::all_of(users(id), reads) &&
          is_worth_keeping(id))
        links.push_back(id);
    }
    std::ranges::stable_sort(links, std::greater(), [&](NodeId id) { return bytes(graph_.node(id).outputs[0]); });
    return links;
  }

  bool is_worth_keeping(NodeId id) const {
    context_.note_weighing();
    const std::int64_t size = bytes(graph_.node(id).outputs[0]);
    if (size <= context_.machine.near_cache_bytes) return false;
    double work = operations(id);
    for (const NodeId user : users(id)) work += operations(user);
    const double moved = static_cast<double>(size) * static_cast<double>(1 + users(id).size());
    return moved * context_.machine.ridge(size) >= kLeastGain * work;
  }

  // Merges the group that ends with the stage and the group of all its users into one; returns whether it did.
  bool join(NodeId id) {
    const std::size_t into = group_of_.at(users(id).front()), from = group_of_.at(id);
    if (std::ranges::any_of(users(id), [&](NodeId user) { return group_of_.at(user) != into; })) return false;
    Group joined = groups_[into];
    joined.insert(groups_[from].begin(), groups_[from].end());
    if (joined.size() > ops::kMostConvStages || !context_.keeps_composite ||
        !context_.keeps_composite(graph_, node_of(joined)))
      return false;
    for (const auto& [place, each] : groups_[from]) group_of_[each] = into;
    groups_[from].clear();
    groups_[into] = std::move(joined);
    return true;
  }

  ir::Node node_of(const Group& group) const {
    std::map<ValueId, std::int64_t> number;
    std::vector<ValueId> inputs;
    std::set<ValueId> results;
    for (const auto& [place, id] : group) results.insert(graph_.node(id).outputs[0]);
    for (const auto& [place, id] : group) {
      for (const ValueId value : graph_.node(id).inputs) {
        if (value.valid() && !results.contains(value) &&
            number.try_emplace(value, static_cast<std::int64_t>(inputs.size())).second)
          inputs.push_back(value);
      }
    }
    std::vector<ops::ConvStage> stages;
    for (const auto& [place, id] : group) {
      const ir::Node& node = graph_.node(id);
      ops::ConvStage stage = ops::conv_stage_of(graph_, node);
      for (std::int64_t& operand : stage.operands) {
        if (operand >= 0) operand = number.at(node.inputs[static_cast<std::size_t>(operand)]);
      }
      number[node.outputs[0]] = static_cast<std::int64_t>(inputs.size() + stages.size());
      stages.push_back(std::move(stage));
    }
    const ir::Node& end = graph_.node(group.rbegin()->second);
    return {std::string(ops::conv_chain.name),  end.name, std::move(inputs), end.outputs,
            ops::conv_chain_attributes(stages), 0};
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
  std::map<NodeId, std::size_t> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

ir::Graph chain_convolutions(ir::Graph graph, const PassContext& context) {
  return Chainer(std::move(graph), context).run();
}

}  // namespace tessera::passes
