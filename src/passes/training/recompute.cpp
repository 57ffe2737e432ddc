#include "passes/training/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cost/machine.h"
#include "cost/work.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class Recomputation {
 public:
  Recomputation(ir::Graph& graph, std::span<const NodeId> forward)
      : graph_(graph), forward_(forward.begin(), forward.end()) {
    const std::vector<NodeId>& order = graph_.order();
    for (std::size_t i = 0; i < order.size(); ++i) place_[order[i]] = i;
    find_kept();
  }

  RecomputeReport run(std::int64_t budget_bytes) {
    RecomputeReport report;
    report.bytes_before = report.bytes_after = peak_with({}).bytes;
    report.largest = largest();
    while (report.bytes_after > budget_bytes) {
      const std::optional<Choice> best = best_to_drop();
      if (!best) break;
      for (const NodeId node : needed_for(best->value, dropped_)) again_.insert(node);
      dropped_.insert(best->value);
      report.bytes_after = best->bytes;
      report.seconds += best->seconds;
      ++report.dropped;
    }
    if (report.dropped > 0) rebuild();
    return report;
  }

 private:
  // An activation: a result of the forward pass that the backward pass reads. Its views count as the activation.
  struct Kept {
    std::int64_t bytes = 0;
    std::size_t first_use = 0, last_use = 0;  // places of the nodes of the backward pass that read it or a view of it
    bool can_be_dropped = true;
  };

  std::vector<std::pair<std::string, std::int64_t>> largest() const {
    std::vector<std::pair<std::string, std::int64_t>> list;
    for (const auto& [value, kept] : kept_) list.emplace_back(graph_.value(value).name, kept.bytes);
    std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
    list.resize(std::min<std::size_t>(list.size(), 5));
    return list;
  }

  bool is_forward(ValueId value) const {
    const ir::ValueInfo& info = graph_.value(value);
    return info.origin == ir::Origin::node && forward_.contains(info.producer);
  }

  bool is_view(NodeId id) const { return ops::op_of(graph_.node(id)).view; }

  // The value whose bytes a view shows.
  ValueId root_of(ValueId value) const {
    while (is_forward(value) && is_view(graph_.value(value).producer))
      value = graph_.node(graph_.value(value).producer).inputs[0];
    return value;
  }

  void find_kept() {
    for (const NodeId id : graph_.order()) {
      if (forward_.contains(id)) continue;
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid() || !is_forward(input)) continue;
        const ValueId root = root_of(input);
        if (!is_forward(root)) continue;
        const auto [entry, is_new] = kept_.try_emplace(root);
        if (is_new) entry->second = {bytes_of(root), place_.at(id), place_.at(id), can_be_dropped(root)};
        entry->second.last_use = place_.at(id);
      }
    }
    for (const ValueId output : graph_.outputs()) {
      if (const auto found = kept_.find(root_of(output)); found != kept_.end()) found->second.can_be_dropped = false;
    }
  }

  std::int64_t bytes_of(ValueId value) const {
    const std::optional<Shape> shape = graph_.value(value).type.shape();
    return shape ? byte_count(graph_.value(value).type.dtype, *shape) : 0;
  }

  bool can_be_dropped(ValueId value) const {
    if (bytes_of(value) == 0) return false;
    const ir::Node& node = graph_.node(graph_.value(value).producer);
    return ops::op_of(node).deterministic && ir::subgraphs_of(node).empty();
  }

  // The nodes that must run again to compute the value when these are dropped, and the kept values that they read.
  std::vector<NodeId> needed_for(ValueId value, const std::set<ValueId>& dropped,
                                 std::vector<ValueId>* read = nullptr) const {
    std::vector<NodeId> nodes, open{graph_.value(value).producer};
    std::set<NodeId> seen(open.begin(), open.end());
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      nodes.push_back(id);
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid() || !is_forward(input)) continue;
        const ValueId root = root_of(input);
        if (!is_forward(root)) continue;
        if (kept_.contains(root) && !dropped.contains(root) && root != value) {
          if (read != nullptr) read->push_back(root);
          continue;
        }
        if (const NodeId producer = graph_.value(input).producer; seen.insert(producer).second)
          open.push_back(producer);
      }
    }
    return nodes;
  }

  struct Peak {
    std::int64_t bytes = 0;
    std::size_t place = 0;
  };

  // The largest sum of bytes of activations that exist at one time in the backward pass: kept ones until they are last
  // read, and recomputed ones from the first read of those that need them.
  Peak peak_with(const std::set<ValueId>& dropped) const {
    std::map<ValueId, std::pair<std::size_t, std::size_t>> lives;
    for (const auto& [value, kept] : kept_) {
      if (!dropped.contains(value)) lives[value] = {0, kept.last_use};
    }
    std::vector<std::pair<std::size_t, ValueId>> order;
    for (const ValueId value : dropped) order.emplace_back(kept_.at(value).first_use, value);
    std::ranges::sort(order);
    for (const auto& [place, value] : order) {
      if (lives.contains(value)) continue;
      std::vector<ValueId> read;
      for (const NodeId node : needed_for(value, dropped, &read)) {
        for (const ValueId output : graph_.node(node).outputs) {
          if (output.valid() && dropped.contains(output)) lives.try_emplace(output, place, kept_.at(output).last_use);
        }
      }
      for (const ValueId each : read) lives[each].second = std::max(lives[each].second, place);
    }
    std::map<std::size_t, std::int64_t> changes;
    for (const auto& [value, life] : lives) {
      changes[life.first] += kept_.at(value).bytes;
      changes[life.second + 1] -= kept_.at(value).bytes;
    }
    Peak peak;
    std::int64_t now = 0;
    for (const auto& [place, change] : changes) {
      now += change;
      if (now > peak.bytes) peak = {now, place};
    }
    return peak;
  }

  double seconds_of(NodeId id) const {
    if (is_view(id)) return 0;
    const std::optional<cost::Work> work = cost::work_of(graph_, id);
    return work ? machine_.bytes_from_memory(work->cost) / machine_.bytes_per_second : 0;
  }

  struct Choice {
    ValueId value;
    double seconds = 0;
    std::int64_t bytes = 0;  // the peak without it
  };

  // Seconds to recompute the value; nothing where that is impossible.
  std::optional<double> price_of(ValueId value) const {
    double seconds = 0;
    for (const NodeId node : needed_for(value, dropped_)) {
      const ops::OpDef& op = ops::op_of(graph_.node(node));
      if (!op.deterministic || !ir::subgraphs_of(graph_.node(node)).empty()) return std::nullopt;
      if (!again_.contains(node)) seconds += seconds_of(node);
    }
    return seconds;
  }

  // Among the activations that exist at the peak but are read only after it, the one that lowers the peak at the least
  // price per byte. Only the cheapest candidates are evaluated.
  std::optional<Choice> best_to_drop() const {
    const Peak now = peak_with(dropped_);
    std::vector<std::pair<double, ValueId>> candidates;
    for (const auto& [value, kept] : kept_) {
      if (!kept.can_be_dropped || dropped_.contains(value) || kept.first_use <= now.place) continue;
      if (const std::optional<double> seconds = price_of(value))
        candidates.emplace_back(*seconds / static_cast<double>(kept.bytes), value);
    }
    std::ranges::sort(candidates);
    constexpr std::size_t kMostTried = 24;
    std::optional<Choice> best;
    double least = 0;
    for (std::size_t i = 0; i < std::min(candidates.size(), kMostTried); ++i) {
      const ValueId value = candidates[i].second;
      std::set<ValueId> dropped = dropped_;
      dropped.insert(value);
      const std::int64_t bytes = peak_with(dropped).bytes;
      if (bytes >= now.bytes) continue;
      const double seconds = candidates[i].first * static_cast<double>(kept_.at(value).bytes);
      const double price = (seconds + 1e-9) / static_cast<double>(now.bytes - bytes);
      if (best && price >= least) continue;
      best = {value, seconds, bytes};
      least = price;
    }
    return best;
  }

  // --- the copies ---

  void rebuild() {
    std::vector<std::pair<std::size_t, ValueId>> order;
    for (const ValueId value : dropped_) order.emplace_back(kept_.at(value).first_use, value);
    std::ranges::sort(order);
    const std::vector<NodeId> nodes = graph_.order();
    for (const auto& [place, value] : order) {
      token_ = token_before(nodes, place);
      if (token_.valid()) copy_of(value);
    }
    for (const NodeId id : nodes) {
      if (forward_.contains(id)) continue;
      const std::size_t inputs = graph_.node(id).inputs.size();
      for (std::size_t i = 0; i < inputs; ++i) {
        const ValueId input = graph_.node(id).inputs[i];
        if (!input.valid() || !is_forward(input)) continue;
        const ValueId root = root_of(input);
        if (!dropped_.contains(root) || !copies_.contains(root)) continue;
        const ValueId copy = copy_of(input);
        graph_.node(id).inputs[i] = copy;
      }
    }
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    ops::infer_graph(graph_);
  }

  // The last value that the backward pass computes before that place.
  ValueId token_before(const std::vector<NodeId>& order, std::size_t place) const {
    while (place-- > 0) {
      if (forward_.contains(order[place])) continue;
      for (const ValueId output : graph_.node(order[place]).outputs) {
        if (output.valid()) return output;
      }
    }
    return {};
  }

  bool is_computed_again(ValueId value) const {
    if (!is_forward(value)) return false;
    const ValueId root = root_of(value);
    if (!is_forward(root)) return false;
    return dropped_.contains(root) || !kept_.contains(root);
  }

  ValueId delayed(ValueId value) {
    const ir::ValueInfo& info = graph_.value(value);
    const ir::ValueType type = info.type;
    const ValueId output = graph_.add_value(graph_.fresh_name(info.name + "/after"), type);
    graph_.add_node({"tessera::After", "", {value, token_}, {output}, {}, 0});
    return output;
  }

  // The value in the backward pass: computed by a copy of its node if it was dropped.
  ValueId copy_of(ValueId value) {
    if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
    if (!is_computed_again(value)) return value;
    ir::Node node = graph_.node(graph_.value(value).producer);
    bool waits = false;
    for (ValueId& input : node.inputs) {
      if (!input.valid()) continue;
      const ValueId copy = copy_of(input);
      waits = waits || copy != input;
      input = copy;
    }
    for (std::size_t i = 0; i < node.inputs.size() && !waits; ++i) {
      if (!node.inputs[i].valid() || graph_.is_constant(node.inputs[i])) continue;
      node.inputs[i] = delayed(node.inputs[i]);
      waits = true;
    }
    for (ValueId& output : node.outputs) {
      if (!output.valid()) continue;
      const ir::ValueInfo& info = graph_.value(output);
      const ir::ValueType type = info.type;
      const ValueId copy = graph_.add_value(graph_.fresh_name(info.name + "/again"), type);
      copies_[output] = copy;
      output = copy;
    }
    if (!node.name.empty()) node.name += "/again";
    graph_.add_node(std::move(node));
    return copies_.at(value);
  }

  ir::Graph& graph_;
  std::set<NodeId> forward_, again_;
  std::map<NodeId, std::size_t> place_;
  std::map<ValueId, Kept> kept_;
  std::set<ValueId> dropped_;
  std::map<ValueId, ValueId> copies_;
  ValueId token_;  // what copies that are being made wait for
  cost::Machine machine_;
};

}  // namespace

RecomputeReport recompute(ir::Graph& graph, std::span<const NodeId> forward, std::int64_t budget_bytes) {
  return Recomputation(graph, forward).run(budget_bytes);
}

}  // namespace tessera::passes
