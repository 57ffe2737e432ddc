#include "compress/prune/feature_layout.h"

#include <algorithm>

namespace tessera::compress {
namespace {

std::int64_t count_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

// The distance between the numbers of two neighbouring features along the factor.
std::int64_t stride_of(const std::vector<std::int64_t>& sizes, int feature) {
  return count_of({sizes.begin() + feature + 1, sizes.end()});
}

// Distributes the factors of a layout over the dimensions of a Reshape.
class Divider {
 public:
  explicit Divider(const FeatureLayout& from) : layout_(from) {
    for (const AxisFactors& axis : from.axes) left_.insert(left_.end(), axis.begin(), axis.end());
  }

  std::optional<FeatureLayout> run(const ir::Dims& dims) {
    std::vector<AxisFactors> axes(dims.size());
    std::size_t begin = 0, end = dims.size();
    while (end > begin && take_last(dims[end - 1], axes[end - 1])) --end;
    while (begin < end && take_first(dims[begin], axes[begin])) ++begin;
    if (end - begin > 1) return std::nullopt;
    // A single dimension takes all factors that are left; if there is none, only factors of size 1 may be left.
    if (end - begin == 1) axes[begin] = left_;
    else if (std::ranges::any_of(left_, [](const AxisFactor& each) { return each.is_feature() || each.size != 1; }))
      return std::nullopt;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i].empty()) axes[i].push_back({dims[i], -1});
    layout_.axes = std::move(axes);
    return std::move(layout_);
  }

 private:
  static bool is_same_unknown(const AxisFactor& factor, const ir::Dim& dim) {
    return !factor.is_feature() && !dim.is_known() && factor.size.surely_equals(dim);
  }

  // Divides factor `at` into an outer one of that size and an inner one.
  void divide(std::size_t at, std::int64_t outer) {
    AxisFactor& factor = left_[at];
    AxisFactor inner = factor;
    inner.size = factor.size.value() / outer;
    factor.size = outer;
    if (factor.is_feature()) {
      inner.feature = factor.feature + 1;
      const auto place = layout_.sizes.begin() + factor.feature;
      *place = outer;
      layout_.sizes.insert(place + 1, inner.size.value());
      for (std::size_t i = 0; i < left_.size(); ++i)
        if (i != at && left_[i].feature > factor.feature) ++left_[i].feature;
      for (AxisFactor* each : taken_)
        if (each->feature > factor.feature) ++each->feature;
    }
    left_.insert(left_.begin() + static_cast<std::ptrdiff_t>(at) + 1, inner);
  }

  bool take_last(const ir::Dim& dim, AxisFactors& axis) {
    if (!dim.is_known()) {
      if (left_.empty() || !is_same_unknown(left_.back(), dim)) return false;
      axis = {left_.back()};
      left_.pop_back();
      return true;
    }
    std::size_t count = 0;
    std::int64_t size = dim.value();
    while (size > 1) {
      if (count == left_.size()) return false;
      const std::size_t at = left_.size() - 1 - count;
      const ir::Dim& factor = left_[at].size;
      if (!factor.is_known() || factor.value() < 1) return false;
      if (size % factor.value() != 0) {
        if (factor.value() % size != 0) return false;
        divide(at, factor.value() / size);
        ++count;
        size = 1;
        break;
      }
      size /= factor.value();
      ++count;
    }
    give(left_.size() - count, left_.size(), axis);
    return true;
  }

  bool take_first(const ir::Dim& dim, AxisFactors& axis) {
    if (!dim.is_known()) {
      if (left_.empty() || !is_same_unknown(left_.front(), dim)) return false;
      give(0, 1, axis);
      return true;
    }
    std::size_t count = 0;
    std::int64_t size = dim.value();
    while (size > 1) {
      if (count == left_.size()) return false;
      const ir::Dim& factor = left_[count].size;
      if (!factor.is_known() || factor.value() < 1) return false;
      if (size % factor.value() != 0) {
        if (factor.value() % size != 0) return false;
        divide(count, size);
        ++count;
        break;
      }
      size /= factor.value();
      ++count;
    }
    give(0, count, axis);
    return true;
  }

  void give(std::size_t begin, std::size_t end, AxisFactors& axis) {
    axis.assign(left_.begin() + static_cast<std::ptrdiff_t>(begin), left_.begin() + static_cast<std::ptrdiff_t>(end));
    left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(begin), left_.begin() + static_cast<std::ptrdiff_t>(end));
    for (AxisFactor& each : axis) taken_.push_back(&each);
  }

  FeatureLayout layout_;
  AxisFactors left_;
  std::vector<AxisFactor*> taken_;  // point into the axes, whose vectors do not change after that
};

}  // namespace

AxisFactors plain_axis(const ir::Dim& size) {
  return {{size, -1}};
}

bool FeatureLayout::has_features(std::size_t axis) const {
  return std::ranges::any_of(axes[axis], &AxisFactor::is_feature);
}

int FeatureLayout::only_feature(std::size_t axis) const {
  return axes[axis].size() == 1 ? axes[axis][0].feature : -1;
}

std::vector<std::size_t> FeatureLayout::slab(int feature, std::int64_t at) const {
  const std::int64_t stride = stride_of(sizes, feature), size = sizes[static_cast<std::size_t>(feature)];
  std::vector<std::size_t> features;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(channels.size()); ++i)
    if (i / stride % size == at) features.push_back(static_cast<std::size_t>(i));
  return features;
}

FeatureLayout FeatureLayout::part(int feature, std::int64_t begin, std::int64_t end) const {
  const std::int64_t stride = stride_of(sizes, feature), size = sizes[static_cast<std::size_t>(feature)];
  FeatureLayout result = *this;
  result.sizes[static_cast<std::size_t>(feature)] = end - begin;
  result.channels.clear();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(channels.size()); ++i) {
    const std::int64_t at = i / stride % size;
    if (at >= begin && at < end) result.channels.push_back(channels[static_cast<std::size_t>(i)]);
  }
  for (AxisFactors& axis : result.axes)
    for (AxisFactor& each : axis)
      if (each.feature == feature) each.size = end - begin;
  return result;
}

FeatureLayout FeatureLayout::without(int feature, std::int64_t at) const {
  FeatureLayout result = part(feature, at, at + 1);
  result.sizes.erase(result.sizes.begin() + feature);
  for (AxisFactors& axis : result.axes) {
    std::erase_if(axis, [&](const AxisFactor& each) { return each.feature == feature; });
    for (AxisFactor& each : axis)
      if (each.feature > feature) --each.feature;
  }
  return result;
}

std::vector<std::int64_t> FeatureLayout::left_along(std::size_t axis, const std::vector<bool>& is_left) const {
  const AxisFactors& factors = axes[axis];
  std::int64_t entries = 1;
  for (const AxisFactor& each : factors) {
    if (!each.size.is_known()) return {};
    entries *= each.size.value();
  }
  // For each factor of features, which of its entries are left.
  std::vector<std::vector<bool>> kept(sizes.size());
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    kept[f].assign(static_cast<std::size_t>(sizes[f]), false);
    const std::int64_t stride = stride_of(sizes, static_cast<int>(f));
    for (std::size_t i = 0; i < channels.size(); ++i)
      if (is_left[i]) kept[f][static_cast<std::size_t>(static_cast<std::int64_t>(i) / stride % sizes[f])] = true;
  }
  std::vector<std::int64_t> left;
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    std::int64_t rest = entry;
    bool stays = true;
    for (std::size_t i = factors.size(); i-- > 0;) {
      const std::int64_t at = rest % factors[i].size.value();
      rest /= factors[i].size.value();
      if (factors[i].is_feature())
        stays = stays && kept[static_cast<std::size_t>(factors[i].feature)][static_cast<std::size_t>(at)];
    }
    if (stays) left.push_back(entry);
  }
  return left;
}

FeatureLayout made_layout(const ir::Dims& dims, std::size_t axis, std::vector<int> channels) {
  FeatureLayout layout;
  for (std::size_t i = 0; i < dims.size(); ++i) layout.axes.push_back({{dims[i], i == axis ? 0 : -1}});
  layout.sizes = {static_cast<std::int64_t>(channels.size())};
  layout.channels = std::move(channels);
  return layout;
}

std::optional<FeatureLayout> reshaped(const FeatureLayout& from, const ir::Dims& dims) {
  return Divider(from).run(dims);
}

bool same_factors(const AxisFactors& a, const AxisFactors& b) {
  return std::ranges::equal(a, b, [](const AxisFactor& x, const AxisFactor& y) {
    return x.feature == y.feature && x.size.may_equal(y.size);
  });
}

}  // namespace tessera::compress
