#include "report/inspect/output_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera::test::output_difference_test {
namespace {

report::OutputDifference difference(std::initializer_list<float> a, std::initializer_list<float> b) {
  const auto tensor = [](std::initializer_list<float> values) {
    return Value(Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values));
  };
  return report::output_differences({{"y", tensor(a)}}, {{"y", tensor(b)}}).at(0);
}

TEST(OutputDifference, SaysSignalToNoiseAndCosine) {
  const report::OutputDifference some = difference({3, 4}, {3, 4.5f});
  EXPECT_NEAR(some.snr_db, 20, 1e-9) << "10 log10(25 / 0.25)";
  EXPECT_NEAR(some.cosine, 27 / (5 * std::sqrt(29.25)), 1e-12);
  EXPECT_EQ(some.largest, 0.5);
  EXPECT_EQ(some.relative, 0.125);
}

TEST(OutputDifference, OfEqualOutputsThereIsNoNoise) {
  for (const report::OutputDifference& none : {difference({1, -2}, {1, -2}), difference({0, 0}, {0, 0})}) {
    EXPECT_TRUE(none.identical);
    EXPECT_EQ(none.snr_db, std::numeric_limits<double>::infinity());
    EXPECT_NEAR(none.cosine, 1, 1e-12);
  }
  EXPECT_EQ(difference({0, 0}, {1, 0}).cosine, 0);
}

TEST(OutputDifference, LeavesInfinitiesOutOfTheSums) {
  const float infinity = std::numeric_limits<float>::infinity();
  const report::OutputDifference same = difference({3, infinity}, {3, infinity});
  EXPECT_EQ(same.snr_db, std::numeric_limits<double>::infinity());
  const report::OutputDifference other = difference({3, infinity}, {4, 1});
  EXPECT_NEAR(other.snr_db, 10 * std::log10(9.0), 1e-9);
  EXPECT_FALSE(other.close);
}

}  // namespace
}  // namespace tessera::test::output_difference_test
