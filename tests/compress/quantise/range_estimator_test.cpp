#include "compress/quantise/range_estimator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::compress::range_estimator_test {
namespace {

std::vector<float> bell(std::int64_t n, std::uint64_t seed) {
  const Tensor uniform = test::random_tensor(DType::f32, {12 * n}, seed, -0.5, 0.5);
  std::vector<float> values(static_cast<std::size_t>(n), 0.0f);
  for (std::int64_t i = 0; i < 12 * n; ++i) values[static_cast<std::size_t>(i % n)] += uniform.data<float>()[i];
  return values;
}

TEST(RangeEstimator, ZeroIsExact) {
  const UnsignedScale scale = unsigned_scale({-1, 3});
  EXPECT_EQ(scale.zero_point, 64);
  EXPECT_NEAR(static_cast<double>(scale.scale), 4.0 / 255, 1e-8);
  EXPECT_EQ(unsigned_scale({2, 5}).zero_point, 0);
  EXPECT_EQ(unsigned_scale({-5, -2}).zero_point, 255);
  EXPECT_EQ(unsigned_scale({0, 0}).scale, 1.0f);
}

TEST(RangeEstimator, MinMaxIsExactWhateverTheOrder) {
  ValueHistogram a, b;
  const std::vector<float> small = bell(1000, 1), large{-700.5f, 3.25f, 99};
  a.add(small), a.add(large);
  b.add(large), b.add(small);
  EXPECT_EQ(a.extremes().low, -700.5);
  EXPECT_EQ(a.extremes().high, 99);
  EXPECT_EQ(a.count(), 1003);
  for (const RangeEstimator each : {RangeEstimator::percentile, RangeEstimator::mse, RangeEstimator::kl}) {
    EXPECT_NEAR(a.estimate(each, 99).low, b.estimate(each, 99).low, 1.0) << name_of(each);
    EXPECT_NEAR(a.estimate(each, 99).high, b.estimate(each, 99).high, 1.0) << name_of(each);
  }
}

TEST(RangeEstimator, ClippingOnesIgnoreARareOutlier) {
  ValueHistogram histogram;
  histogram.add(bell(100000, 2));
  histogram.add(std::vector<float>{60});
  EXPECT_EQ(histogram.estimate(RangeEstimator::min_max, 0).high, 60);
  for (const RangeEstimator each : {RangeEstimator::percentile, RangeEstimator::kl}) {
    const ValueRange range = histogram.estimate(each, 99.9);
    EXPECT_LT(range.high, 20) << name_of(each);
    EXPECT_GT(range.high, 2) << name_of(each);
    EXPECT_LT(range.low, -2) << name_of(each);
  }
}

TEST(RangeEstimator, LeastSquaresWeighsTheOutlierAgainstTheSteps) {
  ValueHistogram rare, common;
  rare.add(bell(1000, 2)), common.add(bell(1000, 2));
  rare.add(std::vector<float>{9});
  common.add(std::vector<float>(100, 9.0f));
  EXPECT_LT(rare.estimate(RangeEstimator::mse, 0).low, -2);
  EXPECT_GT(common.estimate(RangeEstimator::mse, 0).high, 8.5);
  ValueHistogram many;
  many.add(bell(100000, 3));
  const ValueRange all = many.extremes(), taken = many.estimate(RangeEstimator::mse, 0);
  EXPECT_LT(taken.high, all.high);
  EXPECT_GT(taken.low, all.low);
}

TEST(RangeEstimator, DegenerateValues) {
  ValueHistogram none, constant;
  EXPECT_EQ(none.estimate(RangeEstimator::kl, 99).high, 0);
  constant.add(std::vector<float>(10, 0.0f));
  constant.add(std::vector<float>(10, 7.5f));
  for (const RangeEstimator each :
       {RangeEstimator::min_max, RangeEstimator::percentile, RangeEstimator::mse, RangeEstimator::kl})
    EXPECT_NEAR(constant.estimate(each, 100).high, 7.5, 0.3) << name_of(each);
}

TEST(RangeEstimator, NamesAreChecked) {
  EXPECT_EQ(parse_range_estimator("kl"), RangeEstimator::kl);
  test::expect_error_containing(ErrorKind::invalid_argument, "minmax", [] { parse_range_estimator("max"); });
}

}  // namespace
}  // namespace tessera::compress::range_estimator_test
