#include "serve/core/requests/run_times.h"

#include <gtest/gtest.h>

namespace tessera::serve::run_times_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(RunTimes, PredictsByRowsAndInProportion) {
  RunTimes times;
  EXPECT_EQ(times.predicted_ns(4), 0);
  times.add(2, 10 * kMs, 100 * kMs);
  times.add(8, 24 * kMs, 200 * kMs);
  EXPECT_EQ(times.predicted_ns(1), 10 * kMs);
  EXPECT_EQ(times.predicted_ns(2), 10 * kMs);
  EXPECT_EQ(times.predicted_ns(4), 20 * kMs);  // twice as many rows as 2
  EXPECT_EQ(times.predicted_ns(6), 24 * kMs);  // no more than 8 rows take
  EXPECT_EQ(times.predicted_ns(16), 48 * kMs);
}

TEST(RunTimes, AveragesRunsThatFollowOneAnother) {
  RunTimes times;
  times.add(1, 10 * kMs, 100 * kMs);
  times.add(1, 20 * kMs, 200 * kMs);
  EXPECT_EQ(times.predicted_ns(1), 12 * kMs);
}

TEST(RunTimes, ForgetsWhatWasMeasuredBeforeAPause) {
  RunTimes times;
  times.add(1, 20 * kMs, 100 * kMs);
  times.add(8, 60'000 * kMs, 60'200 * kMs);  // the machine stood still
  EXPECT_EQ(times.predicted_ns(8), 160 * kMs);
  times.add(1, 60'000 * kMs, 120'300 * kMs);
  EXPECT_GT(times.predicted_ns(1), 10'000 * kMs);
  EXPECT_FALSE(times.is_stale(120'700 * kMs));
  EXPECT_TRUE(times.is_stale(121'000 * kMs));
  times.add(1, 20 * kMs, 121'020 * kMs);
  EXPECT_EQ(times.predicted_ns(1), 20 * kMs);
}

}  // namespace
}  // namespace tessera::serve::run_times_test
