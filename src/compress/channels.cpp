#include "compress/channels.h"

#include <algorithm>
#include <set>

#include "compress/cut_constant.h"
#include "compress/graph_facts.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;
using passes::integer_of;

// The size of axis 1, or -1.
std::int64_t channels_of(const ir::Graph& graph, ValueId value) {
  return size_of(graph, value, 1);
}

// Operators whose result has the channels of their first operand, each computed from that channel alone.
bool keeps_channels(const ir::Node& node) {
  static const std::set<std::string_view> names{"AveragePool",   "BatchNormalization", "Dropout", "GlobalAveragePool",
                                                "GlobalMaxPool", "Identity",           "MaxPool"};
  return names.contains(node.op);
}

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  const std::int64_t group = integer_of(node, "group", 1);
  return group > 1 && group == channels_of(graph, node.inputs[0]) && group == channels_of(graph, node.outputs[0]);
}

}  // namespace

ChannelSets::ChannelSets(const ir::Graph& graph) {
  for (const NodeId id : graph.order()) visit(graph, id);
  for (const ValueId output : graph.outputs()) keep(output);
}

// Channels of the layer that is added next.
void ChannelSets::make(const ir::Graph& graph, ValueId value) {
  std::vector<int>& channels = channels_[value];
  for (std::int64_t i = 0; i < channels_of(graph, value); ++i) channels.push_back(tied_.make(layers_.size(), i));
}

void ChannelSets::keep(ValueId value) {
  const auto found = channels_.find(value);
  if (found == channels_.end()) return;
  for (const int channel : found->second) tied_.keep(channel);
}

void ChannelSets::visit(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if (visit_layer(graph, id) || pass_on(graph, node) || flatten(graph, node)) return;
  bool keeps_some = false;
  for (const ValueId input : node.inputs) {
    keeps_some = keeps_some || (input.valid() && has_channels(input));
    if (input.valid()) keep(input);
  }
  if (keeps_some) reasons_.push_back(ir::describe(graph, id));
}

// Convolutions and products with a matrix, whose results have channels of their own.
bool ChannelSets::visit_layer(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  const bool conv = node.op == "Conv", gemm = node.op == "Gemm", matmul = node.op == "MatMul";
  if (!conv && !gemm && !matmul) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || weights->dtype() != DType::f32) return false;
  if ((gemm && integer_of(node, "transA", 0) != 0) ||
      (matmul && (weights->rank() != 2 || rank_of(graph, node.inputs[0]) != 2)))
    return false;
  if (conv && is_depthwise(graph, node)) {
    if (has_channels(node.inputs[0])) channels_[node.outputs[0]] = channels_[node.inputs[0]];
    return has_channels(node.inputs[0]);
  }
  if (conv && integer_of(node, "group", 1) != 1) return false;
  if (gemm && node.inputs.size() > 2 && node.inputs[2].valid() && !graph.is_constant(node.inputs[2])) return false;
  make(graph, node.outputs[0]);
  layers_.push_back(id);
  return true;
}

bool ChannelSets::pass_on(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == "Concat") {
    const auto is_axis_1 = [&](std::int64_t axis) {
      return axis == 1 || axis + static_cast<std::int64_t>(rank_of(graph, node.outputs[0])) == 1;
    };
    std::vector<int> all;
    for (const ValueId input : node.inputs) {
      if (!has_channels(input) || !is_axis_1(integer_of(node, "axis", 0))) return false;
      all.insert(all.end(), channels_[input].begin(), channels_[input].end());
    }
    channels_[node.outputs[0]] = all;
    return true;
  }
  const bool element_wise = is_element_wise(node);
  if (!element_wise && !keeps_channels(node)) return false;
  if (node.outputs.size() > 1 && node.outputs[1].valid()) return false;
  const std::vector<int>* first = nullptr;
  for (std::size_t i = 0; i < (element_wise ? node.inputs.size() : std::size_t{1}); ++i) {
    const ValueId input = node.inputs[i];
    if (!input.valid() || graph.is_constant(input)) continue;
    if (!has_channels(input) || rank_of(graph, input) != rank_of(graph, node.outputs[0])) return false;
    if (first != nullptr && channels_[input].size() != first->size()) return false;
    if (first == nullptr) first = &channels_[input];
    else
      for (std::size_t k = 0; k < first->size(); ++k) tied_.tie((*first)[k], channels_[input][k]);
  }
  if (first == nullptr || static_cast<std::int64_t>(first->size()) != channels_of(graph, node.outputs[0])) return false;
  channels_[node.outputs[0]] = *first;
  return true;
}

// Flatten, and a Reshape that does the same: each channel becomes so many in a row.
bool ChannelSets::flatten(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Flatten" && node.op != "Reshape") return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (!has_channels(x) || rank_of(graph, y) != 2 || rank_of(graph, x) < 2) return false;
  const std::int64_t before = channels_of(graph, x), after = channels_of(graph, y);
  const ir::Dims &from = *graph.value(x).type.dims, &to = *graph.value(y).type.dims;
  if (before <= 0 || after <= 0 || after % before != 0 || !from[0].surely_equals(to[0])) return false;
  const Tensor* shape = node.op == "Reshape" ? graph.constant(node.inputs[1]) : nullptr;
  if (node.op == "Reshape" && shape == nullptr) return false;
  std::vector<int> all;
  for (const int channel : channels_[x]) all.insert(all.end(), static_cast<std::size_t>(after / before), channel);
  channels_[y] = all;
  return true;
}

std::vector<std::int64_t> ChannelSets::kept(ValueId value) const {
  const auto found = channels_.find(value);
  return found == channels_.end() ? std::vector<std::int64_t>() : tied_.left(found->second);
}

namespace {

// Writes a graph with smaller constants node by node.
class ChannelShrinker {
 public:
  ChannelShrinker(ir::Graph graph, const ChannelSets& sets) : graph_(std::move(graph)), sets_(sets) {}

  ir::Graph run() {
    for (const NodeId id : graph_.order()) shrink(id);
    infer_cut_graph(graph_);
    return std::move(graph_);
  }

 private:
  // Operand `input` with only those entries of an axis that stay in the value.
  void cut(NodeId id, std::size_t input, std::size_t axis, ValueId by) {
    if (sets_.has_channels(by)) cut_constant(graph_, id, input, axis, sets_.kept(by));
  }

  void shrink(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ValueId x = node.inputs.empty() ? ValueId() : node.inputs[0],
                  y = node.outputs.empty() ? ValueId() : node.outputs[0];
    if (node.op == "Conv") {
      const bool depthwise = is_depthwise(graph_, node);
      cut(id, 1, 0, y);
      if (!depthwise) cut(id, 1, 1, x);
      else if (sets_.has_channels(x))
        graph_.node(id).attributes.insert_or_assign("group", static_cast<std::int64_t>(sets_.kept(x).size()));
      cut(id, 2, 0, y);
    } else if (node.op == "Gemm" || node.op == "MatMul") {
      const bool transposed = integer_of(node, "transB", 0) != 0;
      cut(id, 1, transposed ? 0 : 1, y);
      cut(id, 1, transposed ? 1 : 0, x);
      const Tensor* addend = node.inputs.size() > 2 ? graph_.constant(node.inputs[2]) : nullptr;
      if (addend != nullptr && addend->rank() > 0 && addend->shape().back() > 1)
        cut(id, 2, static_cast<std::size_t>(addend->rank()) - 1, y);
    } else if (node.op == "BatchNormalization") {
      for (std::size_t i = 1; i < 5; ++i) cut(id, i, 0, y);
    } else if (node.op == "Reshape" && sets_.has_channels(y)) {
      flatten(id);
    } else if (is_element_wise(node) && sets_.has_channels(y)) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        cut_broadcast(graph_, id, i, rank_of(graph_, y), 1, sets_.kept(y));
    }
  }

  // The first axis as it is, the rest as it comes.
  void flatten(NodeId id) {
    const std::string name = graph_.fresh_name("shape");
    graph_.node(id).inputs[1] = graph_.add_constant(Tensor::from<std::int64_t>({2}, {0, -1}), name);
    graph_.node(id).attributes.erase("allowzero");
  }

  ir::Graph graph_;
  const ChannelSets& sets_;
};

}  // namespace

ir::Graph without_channels(ir::Graph graph, const ChannelSets& sets) {
  return ChannelShrinker(std::move(graph), sets).run();
}

}  // namespace tessera::compress
