// Where the features that layers make lie in a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/type.h"

namespace tessera::compress {

// A part of an axis. An axis is a row of factors, the outermost first: of [batch · heads, length, size] the first axis
// has two, of which the second is one of features.
struct AxisFactor {
  ir::Dim size;
  int feature = -1;  // the number of the factor among those of features, or −1

  bool is_feature() const { return feature >= 0; }
};
using AxisFactors = std::vector<AxisFactor>;
// An axis without features.
AxisFactors plain_axis(const ir::Dim& size);

// A value's features are numbered over all factors of features, of which the last runs fastest; `channels` names, for
// each, the channel of a TiedChannels.
struct FeatureLayout {
  std::vector<AxisFactors> axes;
  std::vector<std::int64_t> sizes;  // of the factors of features
  std::vector<int> channels;        // element_count(sizes)

  bool has_features(std::size_t axis) const;
  // The number of the only factor of an axis, if it is one of features; else −1.
  int only_feature(std::size_t axis) const;
  // The features' numbers at index `at` of factor `feature`, in order.
  std::vector<std::size_t> slab(int feature, std::int64_t at) const;
  // Entries [begin, end) of a factor; with one entry and `drop` the factor goes.
  FeatureLayout part(int feature, std::int64_t begin, std::int64_t end) const;
  FeatureLayout without(int feature, std::int64_t at) const;
  // For each entry of an axis with features whether some of its features is left; nothing where sizes are not known.
  std::vector<std::int64_t> left_along(std::size_t axis, const std::vector<bool>& is_left) const;
};

// A layer's result of these dimensions, whose features lie along one axis.
FeatureLayout made_layout(const ir::Dims& dims, std::size_t axis, std::vector<int> channels);

// The value as a Reshape to `dims` has it. Factors are divided where they have to be. Nothing where a dimension is no
// row of factors.
std::optional<FeatureLayout> reshaped(const FeatureLayout& from, const ir::Dims& dims);

// The features of an axis lie equally in both: same factors, of the same sizes.
bool same_factors(const AxisFactors& a, const AxisFactors& b);

}  // namespace tessera::compress
