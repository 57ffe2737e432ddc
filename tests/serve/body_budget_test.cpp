#include "serve/limits/body_budget.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::serve::body_budget_test {
namespace {

TEST(BodyBudget, GivesWhatIsLeftAndTakesItBack) {
  BodyBudget budget(100);
  BodyBudget::Lease one(budget);
  {
    BodyBudget::Lease other(budget);
    EXPECT_TRUE(one.take(60));
    EXPECT_FALSE(other.take(41));
    EXPECT_TRUE(other.take(40));
    EXPECT_EQ(budget.used(), 100);
    EXPECT_EQ(other.held(), 40);
  }
  EXPECT_EQ(budget.used(), 60);
  one.give(20);
  EXPECT_EQ(budget.used(), 40);
  EXPECT_EQ(one.held(), 40);
  one.release();
  EXPECT_EQ(budget.used(), 0);
}

TEST(BodyBudget, TheSlowestOfTheTransfersThatLastIsAbandonedOnce) {
  BodyBudget budget(100);
  BodyBudget::Lease slow(budget), fast(budget), young(budget);
  int slow_ends = 0, fast_ends = 0, young_ends = 0;
  EXPECT_FALSE(budget.abandon_slowest());
  slow.begin_transfer([&] { ++slow_ends; });
  fast.begin_transfer([&] { ++fast_ends; });
  EXPECT_FALSE(budget.abandon_slowest());  // neither has a speed yet
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  young.begin_transfer([&] { ++young_ends; });
  slow.moved(10);
  fast.moved(1000);
  EXPECT_TRUE(budget.abandon_slowest());
  EXPECT_EQ(slow_ends, 1);
  EXPECT_TRUE(budget.abandon_slowest());
  EXPECT_EQ(fast_ends, 1);
  EXPECT_FALSE(budget.abandon_slowest());
  slow.end_transfer();
  EXPECT_EQ(slow_ends, 1);
  EXPECT_EQ(young_ends, 0);
}

// Who waits for bytes asks again and again, faster than a transfer can end on a busy machine.
TEST(BodyBudget, NobodyElseIsAbandonedWhileOneGivesItsBytesBack) {
  BodyBudget budget(100);
  BodyBudget::Lease slow(budget), fast(budget);
  int slow_ends = 0, fast_ends = 0;
  EXPECT_TRUE(slow.take(40));
  EXPECT_TRUE(fast.take(60));
  slow.begin_transfer([&] { ++slow_ends; });
  fast.begin_transfer([&] { ++fast_ends; });
  fast.moved(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  EXPECT_TRUE(budget.abandon_slowest());
  EXPECT_TRUE(budget.abandon_slowest());
  EXPECT_EQ(slow_ends, 1);
  EXPECT_EQ(fast_ends, 0);
  slow.end_transfer();
  slow.release();
  EXPECT_TRUE(budget.abandon_slowest());
  EXPECT_EQ(fast_ends, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(550));
  EXPECT_FALSE(budget.abandon_slowest());  // it takes too long, and there is no other
}

}  // namespace
}  // namespace tessera::serve::body_budget_test
