#include "compress/heads.h"

#include <algorithm>
#include <numeric>

#include "compress/graph_facts.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;
using ops::constant_integers;
using passes::dims_of;
using passes::integer_of;

bool is_softmax(const ir::Node& node) {
  return node.op == "Softmax" || node.op == "LogSoftmax";
}

}  // namespace

HeadSets::HeadSets(const ir::Graph& graph) {
  for (const NodeId id : graph.order()) visit(graph, id);
  for (const ValueId output : graph.outputs()) keep(output);
  in_heads_.resize(static_cast<std::size_t>(tied_.size()));
  for (int i = 0; i < tied_.size(); ++i) {
    if (!in_heads_[static_cast<std::size_t>(i)]) tied_.keep(i);
  }
}

std::vector<std::int64_t> HeadSets::kept(ValueId value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? Integers() : tied_.left(found->second.channels);
}

void HeadSets::keep(ValueId value) {
  const auto found = values_.find(value);
  if (found == values_.end()) return;
  for (const int channel : found->second.channels) tied_.keep(channel);
}

bool HeadSets::tie(const Followed& a, const Followed& b) {
  if (a.channels.size() != b.channels.size()) return false;
  for (std::size_t i = 0; i < a.channels.size(); ++i) tied_.tie(a.channels[i], b.channels[i]);
  return true;
}

void HeadSets::visit(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if (visit_layer(graph, id) || pass_on(graph, node)) return;
  bool keeps_heads = false;
  for (const ValueId input : node.inputs) {
    if (!input.valid() || !has_channels(input)) continue;
    const std::vector<int>& channels = values_[input].channels;
    in_heads_.resize(static_cast<std::size_t>(tied_.size()));
    keeps_heads = keeps_heads || std::ranges::any_of(channels, [&](int channel) {
                    return in_heads_[static_cast<std::size_t>(channel)];
                  });
    keep(input);
  }
  if (keeps_heads) reasons_.push_back(ir::describe(graph, id));
}

// Products with a matrix. They read heads along the last axis of their data; their results are outputs of their own.
bool HeadSets::visit_layer(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.op != "MatMul" && node.op != "Gemm") return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || weights->dtype() != DType::f32 || weights->rank() != 2 ||
      integer_of(node, "transA", 0) != 0)
    return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const std::size_t rank = rank_of(graph, y);
  if (rank < 2 || graph.is_constant(x)) return false;
  if (node.inputs.size() > 2 && node.inputs[2].valid() && !graph.is_constant(node.inputs[2])) return false;
  if (has_channels(x) && values_[x].axis + 1 != rank_of(graph, x)) return false;
  Followed made{rank - 1, {}};
  for (std::int64_t i = 0; i < size_of(graph, y, rank - 1); ++i) made.channels.push_back(tied_.make(layers_.size(), i));
  values_[y] = std::move(made);
  layers_.push_back(id);
  return true;
}

bool HeadSets::pass_on(const ir::Graph& graph, const ir::Node& node) {
  const bool any =
      std::ranges::any_of(node.inputs, [&](ValueId input) { return input.valid() && has_channels(input); });
  if (!any) return true;
  if (node.op == "Reshape" || node.op == "Flatten") return reshape(graph, node);
  if (node.op == "Transpose") return transpose(graph, node);
  if (node.op == "MatMul") return multiply(graph, node);
  if (node.op == "Split" || node.op == "Slice") return divide(graph, node);
  if (node.op == "Gather" || node.op == "Squeeze" || node.op == "Unsqueeze") return shift_axes(graph, node);
  if (is_softmax(node)) {
    const Followed& from = values_[node.inputs[0]];
    if (axis_at(integer_of(node, "axis", -1), rank_of(graph, node.inputs[0])) == from.axis) return false;
    values_[node.outputs[0]] = from;
    return true;
  }
  return (is_element_wise(node) || node.op == "Identity" || node.op == "Cast") && broadcast(graph, node);
}

bool HeadSets::reshape(const ir::Graph& graph, const ir::Node& node) {
  if (!has_channels(node.inputs[0]) || node.op != "Reshape" || !constant_integers(graph, node, 1)) return false;
  const Followed from = values_[node.inputs[0]];
  return split_heads(graph, node, from) || merge_heads(graph, node, from);
}

// The last axis becomes [heads, size], [3, heads, size] or [heads, 3, size]; or stays, while axes before it change.
bool HeadSets::split_heads(const ir::Graph& graph, const ir::Node& node, const Followed& from) {
  const ValueId y = node.outputs[0];
  if (from.axis + 1 != rank_of(graph, node.inputs[0])) return false;
  const auto all = static_cast<std::int64_t>(from.channels.size());
  std::size_t first = rank_of(graph, y);
  std::int64_t product = 1;
  while (first > 0 && product < all && size_of(graph, y, first - 1) > 0) product *= size_of(graph, y, --first);
  if (product != all) return false;
  const std::size_t factors = rank_of(graph, y) - first;
  if (factors == 1) {
    values_[y] = {first, from.channels};
    return true;
  }
  constexpr std::int64_t kProjections = 3;  // query, key and value
  std::size_t axis = first;
  if (factors == 3 && size_of(graph, y, first) == kProjections) axis = first + 1;
  else if (factors == 3 ? size_of(graph, y, first + 1) != kProjections : factors != 2) return false;
  const std::int64_t heads = size_of(graph, y, axis), outer = axis == first ? 1 : kProjections,
                     inner = all / (heads * outer);
  Followed to{axis, {}};
  in_heads_.resize(static_cast<std::size_t>(tied_.size()));
  for (std::int64_t head = 0; head < heads; ++head) {
    const int representative = from.channels[static_cast<std::size_t>(head * inner)];
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const int channel = from.channels[static_cast<std::size_t>((o * heads + head) * inner + i)];
        tied_.tie(representative, channel);
        in_heads_[static_cast<std::size_t>(channel)] = true;
      }
    }
    to.channels.push_back(representative);
  }
  values_[y] = std::move(to);
  return true;
}

// The heads and what is behind them become the last axis.
bool HeadSets::merge_heads(const ir::Graph& graph, const ir::Node& node, const Followed& from) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  std::int64_t inner = 1;
  for (std::size_t axis = from.axis + 1; axis < rank_of(graph, x); ++axis) {
    if (size_of(graph, x, axis) <= 0) return false;
    inner *= size_of(graph, x, axis);
  }
  const std::size_t rank = rank_of(graph, y);
  if (rank == 0 || size_of(graph, y, rank - 1) != static_cast<std::int64_t>(from.channels.size()) * inner) return false;
  Followed to{rank - 1, {}};
  for (const int channel : from.channels)
    to.channels.insert(to.channels.end(), static_cast<std::size_t>(inner), channel);
  values_[y] = std::move(to);
  return true;
}

bool HeadSets::transpose(const ir::Graph& graph, const ir::Node& node) {
  const Followed& from = values_[node.inputs[0]];
  const std::size_t rank = rank_of(graph, node.inputs[0]);
  Integers permutation(rank);
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  if (const auto found = node.attributes.find("perm"); found != node.attributes.end())
    permutation = std::get<Integers>(found->second);
  const auto to = std::ranges::find(permutation, static_cast<std::int64_t>(from.axis)) - permutation.begin();
  values_[node.outputs[0]] = {static_cast<std::size_t>(to), from.channels};
  return true;
}

// Products of a matrix for each head: heads lie along the same axis of both, before the last two.
bool HeadSets::multiply(const ir::Graph& graph, const ir::Node& node) {
  if (!has_channels(node.inputs[0]) || !has_channels(node.inputs[1])) return false;
  const Followed a = values_[node.inputs[0]], b = values_[node.inputs[1]];
  const std::size_t rank = rank_of(graph, node.outputs[0]);
  if (rank_of(graph, node.inputs[0]) != rank || rank_of(graph, node.inputs[1]) != rank || a.axis != b.axis ||
      a.axis + 2 >= rank || !tie(a, b))
    return false;
  values_[node.outputs[0]] = a;
  return true;
}

bool HeadSets::broadcast(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t rank = rank_of(graph, node.outputs[0]);
  std::optional<Followed> all;
  for (const ValueId input : node.inputs) {
    if (!input.valid() || !has_channels(input)) continue;
    Followed each = values_[input];
    each.axis += rank - rank_of(graph, input);
    if (!all) all = each;
    else if (all->axis != each.axis || !tie(*all, each)) return false;
  }
  if (size_of(graph, node.outputs[0], all->axis) != static_cast<std::int64_t>(all->channels.size())) return false;
  // A value that is neither constant nor divided into heads is the same for each head.
  for (const ValueId input : node.inputs) {
    if (!input.valid() || has_channels(input) || graph.is_constant(input)) continue;
    const std::size_t own = rank_of(graph, input);
    if (!dims_of(graph, input)) return false;
    if (own + all->axis >= rank && size_of(graph, input, own + all->axis - rank) != 1) return false;
  }
  values_[node.outputs[0]] = *all;
  return true;
}

// Parts of an axis: of another one than that of the heads, or equal ones of the outputs of a fused projection.
bool HeadSets::divide(const ir::Graph& graph, const ir::Node& node) {
  if (!has_channels(node.inputs[0])) return false;
  const Followed from = values_[node.inputs[0]];
  const std::size_t rank = rank_of(graph, node.inputs[0]);
  const auto all = static_cast<std::int64_t>(from.channels.size());
  if (node.op == "Slice") {
    const auto starts = constant_integers(graph, node, 1), ends = constant_integers(graph, node, 2),
               axes = constant_integers(graph, node, 3), steps = constant_integers(graph, node, 4);
    if (!starts || !ends || starts->size() != 1 || !axes || axes->size() != 1 || (steps && (*steps)[0] != 1))
      return false;
    Followed part = from;
    if (axis_at((*axes)[0], rank) == from.axis) {
      const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + all : i, 0, all); };
      const std::int64_t begin = clamped((*starts)[0]), end = std::max(begin, clamped((*ends)[0]));
      part.channels = {from.channels.begin() + begin, from.channels.begin() + end};
    }
    values_[node.outputs[0]] = std::move(part);
    return true;
  }
  const bool along = axis_at(integer_of(node, "axis", 0), rank) == from.axis;
  std::int64_t begin = 0;
  for (const ValueId output : node.outputs) {
    if (!output.valid()) return false;
    Followed part = from;
    if (along) {
      const std::int64_t size = size_of(graph, output, from.axis);
      if (size < 0 || begin + size > all) return false;
      part.channels = {from.channels.begin() + begin, from.channels.begin() + begin + size};
      begin += size;
    }
    values_[output] = std::move(part);
  }
  return true;
}

// One of the entries of another axis, which goes; or axes of size 1 that come or go.
bool HeadSets::shift_axes(const ir::Graph& graph, const ir::Node& node) {
  if (!has_channels(node.inputs[0])) return false;
  Followed to = values_[node.inputs[0]];
  const std::size_t rank = rank_of(graph, node.inputs[0]), result = rank_of(graph, node.outputs[0]);
  if (node.op == "Gather") {
    const Tensor* index = graph.constant(node.inputs[1]);
    const std::size_t axis = axis_at(integer_of(node, "axis", 0), rank);
    if (index == nullptr || index->rank() != 0 || axis == to.axis) return false;
    if (axis < to.axis) --to.axis;
  } else {
    auto axes = constant_integers(graph, node, 1);
    if (!axes) return false;
    const bool removes = node.op == "Squeeze";
    for (std::int64_t& axis : *axes) axis = static_cast<std::int64_t>(axis_at(axis, removes ? rank : result));
    std::ranges::sort(*axes);
    const std::size_t before = to.axis;
    for (const std::int64_t axis : *axes) {
      const auto each = static_cast<std::size_t>(axis);
      if (removes && each == before) return false;
      if (removes ? each < before : each <= to.axis) to.axis += removes ? std::size_t(-1) : 1;
    }
  }
  values_[node.outputs[0]] = std::move(to);
  return true;
}

}  // namespace tessera::compress
