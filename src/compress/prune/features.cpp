#include "compress/prune/features.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compress/core/graph_facts.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;
using ops::constant_integers;
using passes::dims_of;
using passes::integer_of;

constexpr std::size_t kChannels = 1;  // the axis of a convolution's channels

// Whether the operator computes each channel of axis 1 from the same channel of its first operand.
bool keeps_channels(const ir::Node& node) {
  static const std::set<std::string_view> names{"AveragePool", "BatchNormalization", "GlobalAveragePool",
                                                "GlobalMaxPool", "MaxPool"};
  return names.contains(node.op);
}

}  // namespace

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  const std::int64_t group = integer_of(node, "group", 1);
  return group > 1 && group == size_of(graph, node.inputs[0], kChannels) &&
         group == size_of(graph, node.outputs[0], kChannels);
}

FeatureSets::FeatureSets(const ir::Graph& graph, FeatureKind kind) : uses_(graph.compute_uses()) {
  for (const NodeId id : graph.order()) visit(graph, id);
  for (const ValueId output : graph.outputs()) keep(output);
  keep_what_is_no_slab();
  keep_other_kind(kind);
}

bool FeatureSets::has_features(ValueId value, std::size_t axis) const {
  return has_features(value) && axis < layout(value).axes.size() && layout(value).has_features(axis);
}

Integers FeatureSets::kept(ValueId value, std::size_t axis) const {
  if (!has_features(value, axis)) return {};
  const FeatureLayout& from = layout(value);
  std::vector<bool> is_left(from.channels.size(), false);
  for (const std::int64_t left : tied_.left(from.channels)) is_left[static_cast<std::size_t>(left)] = true;
  return from.left_along(axis, is_left);
}

Integers FeatureSets::kept(ValueId value) const {
  if (!has_features(value)) return {};
  for (std::size_t axis = 0; axis < layout(value).axes.size(); ++axis)
    if (layout(value).has_features(axis)) return kept(value, axis);
  return {};
}

FeatureLayout FeatureSets::layout_of(const ir::Graph& graph, ValueId value) const {
  if (has_features(value)) return layout(value);
  FeatureLayout plain_axes;
  for (const ir::Dim& dim : *dims_of(graph, value)) plain_axes.axes.push_back(plain_axis(dim));
  return plain_axes;
}

void FeatureSets::tie(const std::vector<int>& a, const std::vector<int>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) tied_.tie(a[i], b[i]);
}

void FeatureSets::keep(ValueId value) {
  if (!has_features(value)) return;
  for (const int channel : layout(value).channels) tied_.keep(channel);
}

void FeatureSets::visit(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  if (visit_layer(graph, id) || pass_on(graph, node)) return;
  for (const ValueId input : node.inputs) {
    if (!has_features(input)) continue;
    for (const int channel : layout(input).channels) keepers_.emplace_back(ir::describe(graph, id), channel);
    keep(input);
  }
}

// Handles convolutions and products with a matrix, whose results have features of their own.
bool FeatureSets::visit_layer(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  const bool conv = node.op == "Conv", deconv = node.op == "ConvTranspose", gemm = node.op == "Gemm";
  if (!conv && !deconv && !gemm && node.op != "MatMul") return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (weights == nullptr || weights->dtype() != DType::f32 || weights->rank() < 2) return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const ir::Dims* dims = dims_of(graph, y);
  const bool spatial = conv || deconv;
  if (dims == nullptr || dims->size() < 2 || graph.is_constant(x) || (!spatial && weights->rank() != 2)) return false;
  if (gemm && (integer_of(node, "transA", 0) != 0 ||
               (node.inputs.size() > 2 && node.inputs[2].valid() && !graph.is_constant(node.inputs[2]))))
    return false;
  if (has_features(x)) {  // all features lie along the axis that is summed over
    const std::size_t read = spatial ? kChannels : layout(x).axes.size() - 1;
    for (std::size_t axis = 0; axis < layout(x).axes.size(); ++axis)
      if (axis != read && layout(x).has_features(axis)) return false;
  }
  const std::size_t axis = spatial ? kChannels : dims->size() - 1;
  if (conv && is_depthwise(graph, node)) {
    if (!has_features(x, kChannels) || layout(x).only_feature(kChannels) < 0) return false;
    values_[y] = made_layout(*dims, axis, layout(x).channels);
    return true;
  }
  if (spatial && integer_of(node, "group", 1) != 1) return false;
  std::vector<int> channels;
  for (std::int64_t i = 0; i < size_of(graph, y, axis); ++i) channels.push_back(tied_.make(layers_.size(), i));
  values_[y] = made_layout(*dims, axis, std::move(channels));
  layers_.push_back(id);
  tie_shared(graph, id);
  return true;
}

// Ties layers with the same weights, so that they can go on sharing them.
void FeatureSets::tie_shared(const ir::Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  const auto [first, is_first] = first_with_.try_emplace(node.inputs[1], id);
  if (is_first) return;
  const ir::Node& other = graph.node(first->second);
  for (const auto& [a, b] :
       {std::pair(other.inputs[0], node.inputs[0]), std::pair(other.outputs[0], node.outputs[0])}) {
    const bool alike = has_features(a) && has_features(b) && layout(a).channels.size() == layout(b).channels.size();
    if (alike) tie(layout(a).channels, layout(b).channels);
    else {
      keep(a);
      keep(b);
    }
  }
}

bool FeatureSets::pass_on(const ir::Graph& graph, const ir::Node& node) {
  const bool any = std::ranges::any_of(node.inputs, [&](ValueId input) { return has_features(input); });
  if (!any) return true;
  if (passes::has_trait(node, ops::Trait::reads_shapes)) return reads_other_sizes(graph, node);
  for (const ValueId output : node.outputs)
    if (output.valid() && dims_of(graph, output) == nullptr) return false;
  if (node.op == "MatMul") return multiply(graph, node);
  if (node.op == "Concat") return concatenate(graph, node);
  if (is_element_wise(node) || node.op == "Identity" || node.op == "Cast" || node.op == "Dropout")
    return (node.outputs.size() == 1 || !node.outputs[1].valid()) && broadcast(graph, node);
  return has_features(node.inputs[0]) && pass_along_axes(graph, node);
}

// Handles operators whose result has the features of their first operand.
bool FeatureSets::pass_along_axes(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == "Reshape" || node.op == "Flatten") return reshape(graph, node);
  if (node.op == "Split" || node.op == "Slice") return divide(graph, node);
  if (node.op == "Gather") return pick(graph, node);
  if (node.op == "Squeeze" || node.op == "Unsqueeze") return shift_axes(graph, node);
  if (passes::has_trait(node, ops::Trait::reduction)) return reduce(graph, node);
  const FeatureLayout from = layout(node.inputs[0]);
  const ValueId y = node.outputs[0];
  if (node.op == "Transpose") {
    FeatureLayout to = from;
    const Integers permutation = passes::permutation_of(node, from.axes.size());
    for (std::size_t i = 0; i < to.axes.size(); ++i) to.axes[i] = from.axes[static_cast<std::size_t>(permutation[i])];
    values_[y] = std::move(to);
    return true;
  }
  if (node.op == "Softmax" || node.op == "LogSoftmax") {
    if (from.has_features(axis_at(integer_of(node, "axis", -1), from.axes.size()))) return false;
    values_[y] = from;
    return true;
  }
  if (!keeps_channels(node) || (node.outputs.size() > 1 && node.outputs[1].valid())) return false;
  const ir::Dims& dims = *dims_of(graph, y);
  if (dims.size() != from.axes.size() || from.only_feature(kChannels) < 0 || from.sizes.size() != 1) return false;
  values_[y] = made_layout(dims, kChannels, from.channels);
  return true;
}

// Whether all readers of a Shape use only the sizes of axes without features.
bool FeatureSets::reads_other_sizes(const ir::Graph& graph, const ir::Node& shape) const {
  if (graph.is_output(shape.outputs[0])) return false;
  const std::size_t rank = layout(shape.inputs[0]).axes.size();
  const std::int64_t start = integer_of(shape, "start", 0);
  return std::ranges::all_of(uses_[static_cast<std::size_t>(shape.outputs[0].index)], [&](NodeId user) {
    const ir::Node& node = graph.node(user);
    if (node.op != "Gather") return false;
    const auto picked = constant_integers(graph, node, 1);
    return picked && std::ranges::all_of(*picked, [&](std::int64_t i) {
             const std::size_t axis = axis_at(i < 0 ? i : i + start, rank);
             return axis < rank && !has_features(shape.inputs[0], axis);
           });
  });
}

// Keeps the sets that are no whole slabs where features lie along several axes: without them, the rest of the value
// would be no tensor.
void FeatureSets::keep_what_is_no_slab() {
  for (const auto& [value, layout] : values_) {
    if (layout.sizes.size() < 2) continue;
    std::map<int, std::size_t> count;  // number of features of each set
    for (const int channel : layout.channels) ++count[tied_.set_of(channel)];
    std::set<int> rectangular;
    for (std::size_t f = 0; f < layout.sizes.size(); ++f) {
      std::map<int, std::size_t> in_slabs;  // number of features of each set that lie in slabs without other sets
      for (std::int64_t at = 0; at < layout.sizes[f]; ++at) {
        const std::vector<std::size_t> slab = layout.slab(static_cast<int>(f), at);
        const int set = tied_.set_of(layout.channels[slab[0]]);
        if (std::ranges::all_of(slab, [&](std::size_t i) { return tied_.set_of(layout.channels[i]) == set; }))
          in_slabs[set] += slab.size();
      }
      for (const auto& [set, features] : in_slabs)
        if (features == count[set]) rectangular.insert(set);
    }
    for (const auto& [set, features] : count)
      if (!rectangular.contains(set)) tied_.keep(set);
  }
}

void FeatureSets::keep_other_kind(FeatureKind kind) {
  std::set<int> heads;
  for (const int channel : in_heads_) heads.insert(tied_.set_of(channel));
  for (const auto& [reason, channel] : keepers_) {
    const bool fits = heads.contains(tied_.set_of(channel)) == (kind == FeatureKind::heads);
    if (fits && std::ranges::find(reasons_, reason) == reasons_.end()) reasons_.push_back(reason);
  }
  for (int i = 0; i < tied_.size(); ++i)
    if (heads.contains(tied_.set_of(i)) != (kind == FeatureKind::heads)) tied_.keep(i);
}

}  // namespace tessera::compress
