#include "compress/prune/feature_layout.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tessera::compress::feature_layout_test {
namespace {

using ir::Dim;

std::vector<int> numbers(int count) {
  std::vector<int> channels(static_cast<std::size_t>(count));
  std::iota(channels.begin(), channels.end(), 0);
  return channels;
}

TEST(FeatureLayout, AReshapeDividesAndJoinsFactors) {
  const Dim batch = Dim::symbol("batch");
  const FeatureLayout made = made_layout({7, batch, 24}, 2, numbers(24));
  // The batch and the heads in one axis, as nn.MultiheadAttention has them, and apart again.
  const std::optional<FeatureLayout> joined = reshaped(made, {7, Dim(), 6});
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->sizes, (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(joined->axes[1].size(), 2u);
  const std::optional<FeatureLayout> apart = reshaped(*joined, {7, batch, 4, 6});
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->only_feature(2), 0);
  EXPECT_EQ(apart->only_feature(3), 1);
  EXPECT_EQ(apart->channels, made.channels);
  const std::optional<FeatureLayout> back = reshaped(*apart, {Dim(), 24});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->axes[1].size(), 2u);
  EXPECT_FALSE(back->has_features(0));
  EXPECT_FALSE(reshaped(made, {7, batch, 5, 5}).has_value());
}

TEST(FeatureLayout, SlabsAndPartsAreThoseOfAFactor) {
  const std::optional<FeatureLayout> layout = reshaped(made_layout({2, 12}, 1, numbers(12)), {2, 3, 4});
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->slab(0, 1), (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(layout->slab(1, 3), (std::vector<std::size_t>{3, 7, 11}));
  EXPECT_EQ(layout->part(1, 1, 3).channels, (std::vector<int>{1, 2, 5, 6, 9, 10}));
  const FeatureLayout picked = layout->without(0, 2);
  EXPECT_EQ(picked.channels, (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(picked.only_feature(2), 0);
}

TEST(FeatureLayout, PositionsThatAreLeftAlongAnAxis) {
  // Channels of an image that a Flatten puts into one axis with the space.
  const std::optional<FeatureLayout> flat = reshaped(made_layout({2, 3, 2, 2}, 1, numbers(3)), {2, 12});
  ASSERT_TRUE(flat.has_value());
  EXPECT_EQ(flat->left_along(1, {true, false, true}), (std::vector<std::int64_t>{0, 1, 2, 3, 8, 9, 10, 11}));
}

}  // namespace
}  // namespace tessera::compress::feature_layout_test
