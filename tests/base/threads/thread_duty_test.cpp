#include "base/threads/thread_duty.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/threads/yield_point.h"

namespace tessera::base::thread_duty_test {
namespace {

struct Counting final : ThreadDuty {
  void see_to() noexcept override { ++times; }
  int times = 0;
};

TEST(ThreadDuty, IsSeenToAtYieldPointsOfItsThreadAlone) {
  Counting duty;
  yield_point();
  {
    const OnDuty on_duty(duty);
    yield_point();
    yield_point();
    std::thread([] { yield_point(); }).join();
  }
  yield_point();
  EXPECT_EQ(duty.times, 2);
}

TEST(ThreadDuty, TakesThePlaceOfAFormerOneAndGivesItBack) {
  Counting outer, inner;
  const OnDuty first(outer);
  {
    const OnDuty second(inner);
    yield_point();
  }
  yield_point();
  EXPECT_EQ(outer.times, 1);
  EXPECT_EQ(inner.times, 1);
}

}  // namespace
}  // namespace tessera::base::thread_duty_test
