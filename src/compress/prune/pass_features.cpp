// Passes features through operators that compute nothing across them.
#include <algorithm>

#include "compress/core/graph_facts.h"
#include "compress/prune/features.h"
#include "passes/find.h"

namespace tessera::compress {
namespace {

using ir::ValueId;
using Integers = std::vector<std::int64_t>;
using ops::constant_integers;
using passes::dims_of;
using passes::integer_of;

}  // namespace

// Along the axis of features, those of the operands follow each other; along another axis, all operands have the same
// features.
bool FeatureSets::concatenate(const ir::Graph& graph, const ir::Node& node) {
  const ir::Dims& dims = *dims_of(graph, node.outputs[0]);
  const std::size_t axis = axis_at(integer_of(node, "axis", 0), dims.size());
  FeatureLayout all;
  for (const ValueId input : node.inputs) {
    if (!has_features(input)) return false;
    const FeatureLayout& each = layout(input);
    if (each.has_features(axis)) {
      if (each.only_feature(axis) != 0 || each.sizes.size() != 1) return false;
      std::vector<int> channels = all.channels;
      channels.insert(channels.end(), each.channels.begin(), each.channels.end());
      all = made_layout(dims, axis, std::move(channels));
    } else {
      if (all.axes.empty()) all = each;
      if (all.has_features(axis) || all.sizes != each.sizes) return false;
      for (std::size_t i = 0; i < all.axes.size(); ++i)
        if (i != axis && !same_factors(all.axes[i], each.axes[i])) return false;
      tie(all.channels, each.channels);
      all.axes[axis] = plain_axis(dims[axis]);
    }
  }
  values_[node.outputs[0]] = std::move(all);
  return true;
}

bool FeatureSets::reshape(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == "Reshape" && !constant_integers(graph, node, 1)) return false;
  const FeatureLayout& from = layout(node.inputs[0]);
  std::optional<FeatureLayout> to = reshaped(from, *dims_of(graph, node.outputs[0]));
  if (!to) return false;
  if (to->sizes.size() > from.sizes.size()) in_heads_.insert(in_heads_.end(), to->channels.begin(), to->channels.end());
  values_[node.outputs[0]] = std::move(*to);
  return true;
}

// Handles a product of two activations, which is computed for each entry of the axes before the last two. If features
// lie along these, all features of an entry belong together; else those along the axis that is summed over are tied one
// by one.
bool FeatureSets::multiply(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t rank = rank_of(graph, node.outputs[0]);
  if (dims_of(graph, node.inputs[0]) == nullptr || dims_of(graph, node.inputs[1]) == nullptr || rank < 2) return false;
  const FeatureLayout a = layout_of(graph, node.inputs[0]), b = layout_of(graph, node.inputs[1]);
  if (a.axes.size() != rank || b.axes.size() != rank) return false;
  // The factors of features along one of the leading axes, or -1; both operands must have equally many.
  int of_a = -1, of_b = -1;
  std::size_t shared = 0;
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
    if (!a.has_features(axis) && !b.has_features(axis)) continue;
    if (of_a >= 0 || !a.has_features(axis) || !b.has_features(axis)) return false;
    of_a = a.axes[axis].back().feature;
    of_b = b.axes[axis].back().feature;
    const auto features = [](const AxisFactors& factors) {
      return std::ranges::count_if(factors, &AxisFactor::is_feature);
    };
    if (of_a < 0 || of_b < 0 || features(a.axes[axis]) != 1 || features(b.axes[axis]) != 1 ||
        a.sizes[static_cast<std::size_t>(of_a)] != b.sizes[static_cast<std::size_t>(of_b)])
      return false;
    shared = axis;
  }
  const bool in_a = a.has_features(rank - 1), in_b = b.has_features(rank - 2);
  if (in_a != in_b || a.has_features(rank - 2)) return false;
  const bool in_result = b.has_features(rank - 1);
  if (of_a < 0) {
    if (in_a && (a.sizes.size() != 1 || b.sizes.size() != 1 || a.sizes != b.sizes || in_result)) return false;
    if (in_a) tie(a.channels, b.channels);
    if (in_result) {
      FeatureLayout to = b;
      to.axes[rank - 2] = a.axes[rank - 2];
      values_[node.outputs[0]] = std::move(to);
    }
    return true;
  }
  const std::int64_t heads = a.sizes[static_cast<std::size_t>(of_a)];
  std::vector<int> first;  // feature of each head
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::vector<std::size_t> left = a.slab(of_a, head), right = b.slab(of_b, head);
    first.push_back(a.channels[left[0]]);
    for (const std::size_t i : left) tied_.tie(first.back(), a.channels[i]);
    for (const std::size_t i : right) tied_.tie(first.back(), b.channels[i]);
  }
  in_heads_.insert(in_heads_.end(), first.begin(), first.end());
  FeatureLayout to = b;  // [..., k, n] with the features of n
  to.axes[rank - 2] = a.axes[rank - 2];
  if (!in_result) {
    to = made_layout(*dims_of(graph, node.outputs[0]), shared, first);
    to.axes[shared] = a.axes[shared];
    for (AxisFactor& each : to.axes[shared])
      if (each.is_feature()) each.feature = 0;
  } else if (in_b) {
    return false;
  }
  values_[node.outputs[0]] = std::move(to);
  return true;
}

bool FeatureSets::broadcast(const ir::Graph& graph, const ir::Node& node) {
  const ir::Dims& dims = *dims_of(graph, node.outputs[0]);
  const std::size_t rank = dims.size();
  std::optional<FeatureLayout> all;
  for (const ValueId input : node.inputs) {
    if (!has_features(input)) continue;
    FeatureLayout each = layout(input);
    if (each.axes.size() > rank) return false;
    while (each.axes.size() < rank) each.axes.insert(each.axes.begin(), plain_axis(1));
    if (!all) {
      all = std::move(each);
      continue;
    }
    if (all->sizes != each.sizes) return false;
    for (std::size_t i = 0; i < rank; ++i)
      if ((all->has_features(i) || each.has_features(i)) && !same_factors(all->axes[i], each.axes[i])) return false;
    tie(all->channels, each.channels);
  }
  // Operands that are neither constant nor have features must broadcast along the axes of features.
  for (const ValueId input : node.inputs) {
    if (!input.valid() || has_features(input) || graph.is_constant(input)) continue;
    const std::size_t own = rank_of(graph, input);
    if (dims_of(graph, input) == nullptr) return false;
    for (std::size_t i = 0; i < rank; ++i)
      if (all->has_features(i) && own + i >= rank && size_of(graph, input, own + i - rank) != 1) return false;
  }
  for (std::size_t i = 0; i < rank; ++i)
    if (!all->has_features(i)) all->axes[i] = plain_axis(dims[i]);
  values_[node.outputs[0]] = std::move(*all);
  return true;
}

// Handles parts of an axis without features, or of an axis that is a single factor of features.
bool FeatureSets::divide(const ir::Graph& graph, const ir::Node& node) {
  const FeatureLayout from = layout(node.inputs[0]);
  const std::size_t rank = from.axes.size();
  if (node.op == "Slice") {
    const auto starts = constant_integers(graph, node, 1), ends = constant_integers(graph, node, 2),
               axes = constant_integers(graph, node, 3), steps = constant_integers(graph, node, 4);
    if (!starts || !ends || starts->size() != 1 || !axes || axes->size() != 1 || (steps && (*steps)[0] != 1))
      return false;
    const std::size_t axis = axis_at((*axes)[0], rank);
    FeatureLayout part = from;
    if (from.has_features(axis)) {
      const int feature = from.only_feature(axis);
      if (feature < 0) return false;
      const std::int64_t all = from.sizes[static_cast<std::size_t>(feature)];
      const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + all : i, 0, all); };
      const std::int64_t begin = clamped((*starts)[0]), end = std::max(begin, clamped((*ends)[0]));
      if (end == begin) return false;
      part = from.part(feature, begin, end);
    } else {
      part.axes[axis] = plain_axis((*dims_of(graph, node.outputs[0]))[axis]);
    }
    values_[node.outputs[0]] = std::move(part);
    return true;
  }
  const std::size_t axis = axis_at(integer_of(node, "axis", 0), rank);
  const int feature = from.only_feature(axis);
  if (from.has_features(axis) && feature < 0) return false;
  std::int64_t begin = 0;
  for (const ValueId output : node.outputs) {
    if (!output.valid()) return false;
    FeatureLayout part = from;
    if (from.has_features(axis)) {
      const std::int64_t size = size_of(graph, output, axis);
      if (size < 1 || begin + size > from.sizes[static_cast<std::size_t>(feature)]) return false;
      part = from.part(feature, begin, begin + size);
      begin += size;
    } else {
      part.axes[axis] = plain_axis((*dims_of(graph, output))[axis]);
    }
    values_[output] = std::move(part);
  }
  return true;
}

bool FeatureSets::reduce(const ir::Graph& graph, const ir::Node& node) {
  const std::optional<Integers> axes = passes::reduced_axes(graph, node);
  if (!axes) return false;
  FeatureLayout to = layout(node.inputs[0]);
  const bool keeps_axes = integer_of(node, "keepdims", 1) != 0;
  for (auto axis = axes->rbegin(); axis != axes->rend(); ++axis) {
    const auto at = static_cast<std::size_t>(*axis);
    if (to.has_features(at)) return false;
    if (keeps_axes) to.axes[at] = plain_axis(1);
    else to.axes.erase(to.axes.begin() + *axis);
  }
  values_[node.outputs[0]] = std::move(to);
  return true;
}

// Handles a Gather of one entry of an axis, which removes the axis.
bool FeatureSets::pick(const ir::Graph& graph, const ir::Node& node) {
  FeatureLayout to = layout(node.inputs[0]);
  const Tensor* index = graph.constant(node.inputs[1]);
  const std::size_t axis = axis_at(integer_of(node, "axis", 0), to.axes.size());
  if (to.has_features(axis)) {
    const int feature = to.only_feature(axis);
    const std::optional<double> at = passes::scalar_of(graph, node.inputs[1]);
    if (feature < 0 || index == nullptr || index->rank() != 0 || !at || to.sizes.size() < 2) return false;
    const std::int64_t size = to.sizes[static_cast<std::size_t>(feature)];
    to = to.without(feature, static_cast<std::int64_t>(*at < 0 ? *at + static_cast<double>(size) : *at));
    to.axes.erase(to.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  } else {
    const ir::Dims* picked = dims_of(graph, node.inputs[1]);
    if (picked == nullptr || has_features(node.inputs[1])) return false;
    to.axes.erase(to.axes.begin() + static_cast<std::ptrdiff_t>(axis));
    for (std::size_t i = 0; i < picked->size(); ++i)
      to.axes.insert(to.axes.begin() + static_cast<std::ptrdiff_t>(axis + i), plain_axis((*picked)[i]));
  }
  values_[node.outputs[0]] = std::move(to);
  return true;
}

// Handles operators that insert or remove axes of size 1.
bool FeatureSets::shift_axes(const ir::Graph& graph, const ir::Node& node) {
  FeatureLayout to = layout(node.inputs[0]);
  auto axes = constant_integers(graph, node, 1);
  if (!axes) return false;
  const bool removes = node.op == "Squeeze";
  const std::size_t rank = removes ? to.axes.size() : rank_of(graph, node.outputs[0]);
  for (std::int64_t& axis : *axes) axis = static_cast<std::int64_t>(axis_at(axis, rank));
  std::ranges::sort(*axes);
  if (removes) std::ranges::reverse(*axes);
  for (const std::int64_t axis : *axes) {
    if (removes && to.has_features(static_cast<std::size_t>(axis))) return false;
    if (removes) to.axes.erase(to.axes.begin() + axis);
    else to.axes.insert(to.axes.begin() + axis, plain_axis(1));
  }
  values_[node.outputs[0]] = std::move(to);
  return true;
}

}  // namespace tessera::compress
