// Describes where the features that layers make lie in a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/type.h"

namespace tessera::compress {

// A part of an axis. An axis is a product of factors, the outermost first: in [batch · heads, length, size] the first
// axis has two, of which the second enumerates features.
struct AxisFactor {
  ir::Dim size;
  int feature = -1;  // number of the factor among those of features, or −1

  bool is_feature() const { return feature >= 0; }
};
using AxisFactors = std::vector<AxisFactor>;
// An axis without features.
AxisFactors plain_axis(const ir::Dim& size);

// The layout of a value. Its features are numbered over all factors of features, the last of which runs fastest;
// `channels` gives the channel of a TiedChannels for each feature.
struct FeatureLayout {
  std::vector<AxisFactors> axes;
  std::vector<std::int64_t> sizes;  // of the factors of features
  std::vector<int> channels;        // element_count(sizes)

  bool has_features(std::size_t axis) const;
  // The number of the only factor of an axis, if it is one of features; else −1.
  int only_feature(std::size_t axis) const;
  // The numbers of the features at index `at` of factor `feature`, in ascending order.
  std::vector<std::size_t> slab(int feature, std::int64_t at) const;
  // The layout of entries [begin, end) of a factor. If there is one entry and `drop` is set, the factor is removed.
  FeatureLayout part(int feature, std::int64_t begin, std::int64_t end) const;
  FeatureLayout without(int feature, std::int64_t at) const;
  // The entries of an axis with features of which at least one feature is left; nothing if sizes are not known.
  std::vector<std::int64_t> left_along(std::size_t axis, const std::vector<bool>& is_left) const;
};

// The layout of a layer's result with these dimensions, whose features lie along one axis.
FeatureLayout made_layout(const ir::Dims& dims, std::size_t axis, std::vector<int> channels);

// The layout after a Reshape to `dims`, with factors divided where necessary. Nothing if a dimension is not a product
// of consecutive factors.
std::optional<FeatureLayout> reshaped(const FeatureLayout& from, const ir::Dims& dims);

// Whether features lie equally along both axes: in the same factors, of the same sizes.
bool same_factors(const AxisFactors& a, const AxisFactors& b);

}  // namespace tessera::compress
