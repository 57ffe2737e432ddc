#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::normalisation_test {
namespace {

Tensor f32(const Shape& shape, std::uint64_t seed, double low = -2, double high = 3) {
  return random_tensor(DType::f32, shape, seed, low, high);
}
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 60);

TEST(CpuNormalisation, RowsMatchReference) {
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 5, 384}, Shape{4, 1}, Shape{300, 67}}) {
    for (const std::int64_t axis : {-1, 1}) {
      const Shape row(shape.begin() + (axis < 0 ? static_cast<std::int64_t>(shape.size()) - 1 : axis), shape.end());
      const ir::Attributes attributes = {{"axis", axis}, {"epsilon", 1e-3f}};
      expect_matches_reference({"LayerNormalization", {f32(shape, 1), f32(row, 2), f32(row, 3)}, attributes, 3},
                               kTolerance);
      expect_matches_reference({"LayerNormalization", {f32(shape, 1), f32(row, 2)}, attributes}, kTolerance);
      expect_matches_reference({"RMSNormalization", {f32(shape, 1), f32(row, 2)}, attributes}, kTolerance);
    }
  }
}

TEST(CpuNormalisation, ChannelsMatchReference) {
  for (const Shape& shape : {Shape{2, 6, 7, 11}, Shape{1, 12, 100}, Shape{3, 6, 1}, Shape{1, 6, 90, 101}}) {
    const Shape channels = {shape[1]};
    const Tensor x = f32(shape, 1), scale = f32(channels, 2), shift = f32(channels, 3), mean = f32(channels, 4);
    expect_matches_reference({"InstanceNormalization", {x, scale, shift}, {{"epsilon", 1e-3f}}}, kTolerance);
    expect_matches_reference({"GroupNormalization", {x, scale, shift}, {{"num_groups", std::int64_t{3}}}}, kTolerance);
    expect_matches_reference({"BatchNormalization", {x, scale, shift, mean, f32(channels, 5, 0.1, 2)}}, kTolerance);
  }
  expect_matches_reference(
      {"BatchNormalization", {f32({4, 5}, 1), f32({5}, 2), f32({5}, 3), f32({5}, 4), f32({5}, 5, 0.1, 2)}}, kTolerance);
}

}  // namespace
}  // namespace tessera::test::normalisation_test
