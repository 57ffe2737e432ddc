#include "cost/transfer_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera::test::transfer_groups_test {
namespace {

using Stages = std::vector<cost::TransferStage>;

// Every grouping of up to about twelve stages.
double least_of_all(const Stages& stages, double overhead) {
  double least = 1e300;
  for (unsigned cuts = 0; cuts < 1U << (stages.size() - 1); ++cuts) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      if ((cuts >> i & 1U) != 0) ends.push_back(i + 1);
    }
    ends.push_back(stages.size());
    least = std::min(least, cost::pipelined_seconds(stages, ends, overhead));
  }
  return least;
}

TEST(TransferGroups, TimeOfAGrouping) {
  const Stages stages{{2, 3}, {4, 1}, {1, 5}};
  const std::vector<std::size_t> single{3}, each{1, 2, 3}, first{1, 3};
  EXPECT_DOUBLE_EQ(cost::pipelined_seconds(stages, single, 0.5), 0.5 + 7 + 9);
  // Transfers end at 2.5, 7 and 8.5; computing at 5.5, 8 and 13.5.
  EXPECT_DOUBLE_EQ(cost::pipelined_seconds(stages, each, 0.5), 13.5);
  // Transfers end at 2.5 and 8; computing at 5.5 and 14.
  EXPECT_DOUBLE_EQ(cost::pipelined_seconds(stages, first, 0.5), 14);
}

TEST(TransferGroups, AreTheBestOfAll) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int round = 0; round < 300; ++round) {
    Stages stages(1 + random() % 10);
    for (cost::TransferStage& stage : stages) stage = {seconds(random), seconds(random) * (round % 3 == 0 ? 0.3 : 1)};
    const double overhead = seconds(random) * (round % 2 == 0 ? 0.05 : 0.8);
    const std::vector<std::size_t> ends = cost::choose_transfer_groups(stages, overhead, 0);
    ASSERT_TRUE(std::ranges::is_sorted(ends));
    ASSERT_EQ(ends.back(), stages.size());
    const double chosen = cost::pipelined_seconds(stages, ends, overhead);
    EXPECT_NEAR(chosen, least_of_all(stages, overhead), 1e-9) << "round " << round;
    EXPECT_GE(chosen, cost::pipelined_lower_bound(stages, overhead) - 1e-9);
  }
}

TEST(TransferGroups, LargeOverheadMakesOneGroup) {
  const Stages stages(50, {0.001, 0.001});
  EXPECT_EQ(cost::choose_transfer_groups(stages, 10, 0), std::vector<std::size_t>{50});
  EXPECT_GT(cost::choose_transfer_groups(stages, 1e-6).size(), 10u);
  EXPECT_TRUE(cost::choose_transfer_groups({}, 1).empty());
}

TEST(TransferGroups, ToleranceIsKept) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int round = 0; round < 20; ++round) {
    Stages stages(100);
    for (cost::TransferStage& stage : stages) stage = {seconds(random) * seconds(random), seconds(random)};
    const double overhead = 0.02;
    const double chosen =
        cost::pipelined_seconds(stages, cost::choose_transfer_groups(stages, overhead, 0.01), overhead);
    const double best = cost::pipelined_seconds(stages, cost::choose_transfer_groups(stages, overhead, 0), overhead);
    EXPECT_LE(chosen, best * 1.0101);
  }
}

}  // namespace
}  // namespace tessera::test::transfer_groups_test
