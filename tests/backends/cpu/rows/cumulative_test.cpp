#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::cumulative_test {
namespace {

OpCall call_of(Tensor x, std::int64_t axis, std::int64_t exclusive, std::int64_t reverse) {
  OpCall call{"CumSum", {std::move(x), Tensor::from<std::int64_t>({}, {axis})}};
  call.attributes = {{"exclusive", exclusive}, {"reverse", reverse}};
  return call;
}

void expect_all_match(const Tensor& x) {
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    for (const std::int64_t exclusive : {0, 1}) {
      for (const std::int64_t reverse : {0, 1}) expect_matches_reference(call_of(x, axis, exclusive, reverse));
    }
  }
}

TEST(CpuCumSum, MatchesReference) {
  const Shape shapes[] = {{1}, {7}, {5, 3}, {3, 4, 5}, {2, 9, 131}, {1, 300, 2}, {6, 1, 257}, {40, 8, 64}, {3, 0, 2}};
  for (const Shape& shape : shapes) {
    for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      expect_all_match(random_tensor(type, shape, 1, -1000, 1000));
    }
  }
}

TEST(CpuCumSum, IntegersWrap) {
  expect_all_match(Tensor::from<std::int32_t>({3, 2}, std::vector<std::int32_t>(6, 2'000'000'000)));
  expect_all_match(
      Tensor::from<std::int64_t>({3, 2}, std::vector<std::int64_t>(6, std::numeric_limits<std::int64_t>::min())));
}

TEST(CpuCumSum, KeepsInfinitiesAndMissingNumbers) {
  const float infinity = std::numeric_limits<float>::infinity(), missing = std::numeric_limits<float>::quiet_NaN();
  expect_all_match(Tensor::from<float>({4, 3}, {1, infinity, missing, 2, -infinity, 3, 3e38f, 1, 2, 3e38f, 0, -0.0f}));
}

}  // namespace
}  // namespace tessera::test::cumulative_test
