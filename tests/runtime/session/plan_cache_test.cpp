#include "runtime/session/plan_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/threads/clock.h"
#include "runtime/session/program.h"

namespace tessera::runtime::plan_cache_test {
namespace {

const auto kKeepsAll = [](std::size_t) { return false; };
const auto kNewPlan = [] { return std::make_shared<PreparedPlan>(); };

TEST(PlanCache, ForgetsTheLeastRecentlyUsed) {
  PlanCache cache;
  const auto keeps_two = [](std::size_t count) { return count > 2; };
  const PlanCache::Plan one = cache.find_or_make({1}, Clock::steady(), kNewPlan, keeps_two);
  cache.find_or_make({2}, Clock::steady(), kNewPlan, keeps_two);
  EXPECT_EQ(cache.find({1}), one);
  EXPECT_EQ(cache.find_or_make({1}, Clock::steady(), kNewPlan, keeps_two), one);
  cache.find_or_make({3}, Clock::steady(), kNewPlan, keeps_two);
  EXPECT_EQ(cache.find({1}), one);
  EXPECT_EQ(cache.find({2}), nullptr);
  EXPECT_NE(cache.find({3}), nullptr);
  // The latest stays even if it alone is too much.
  const PlanCache::Plan last = cache.find_or_make({4}, Clock::steady(), kNewPlan, [](std::size_t) { return true; });
  EXPECT_EQ(cache.all(), std::vector<PlanCache::Plan>{last});
}

// In virtual time threads run one at a time, and planning takes as long as it sleeps.
TEST(PlanCache, MakesAPlanOnceForAllThatWait) {
  base::VirtualClock clock;
  PlanCache cache;
  int made = 0;
  std::vector<PlanCache::Plan> found;
  std::vector<std::int64_t> times;
  const auto run = [&] {
    found.push_back(cache.find_or_make(
        {7}, clock,
        [&] {
          ++made;
          clock.sleep_until(clock.now_ns() + 100);
          return kNewPlan();
        },
        kKeepsAll));
    times.push_back(clock.now_ns());
  };
  clock.run({run, run, run});
  EXPECT_EQ(made, 1);
  EXPECT_EQ(found, std::vector<PlanCache::Plan>(3, cache.find({7})));
  EXPECT_EQ(times, std::vector<std::int64_t>(3, 100));
}

TEST(PlanCache, AThreadThatWaitedForAFailureMakesThePlanItself) {
  base::VirtualClock clock;
  PlanCache cache;
  int attempts = 0, failures = 0;
  const auto run = [&] {
    try {
      cache.find_or_make(
          {7}, clock,
          [&] {
            const bool fails = ++attempts < 3;
            clock.sleep_until(clock.now_ns() + 100);
            if (fails) throw std::runtime_error("no plan");
            return kNewPlan();
          },
          kKeepsAll);
    } catch (const std::runtime_error&) {
      ++failures;
    }
  };
  clock.run({run, run, run, run});
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(failures, 2);
  EXPECT_NE(cache.find({7}), nullptr);
}

TEST(PlanCache, OtherKeysAreFoundAndMadeMeanwhile) {
  PlanCache cache;
  cache.find_or_make({1}, Clock::steady(), kNewPlan, kKeepsAll);
  std::atomic<bool> planning{false}, may_end{false};
  std::thread slow([&] {
    cache.find_or_make(
        {2}, Clock::steady(),
        [&] {
          planning = true;
          while (!may_end) std::this_thread::yield();
          return kNewPlan();
        },
        kKeepsAll);
  });
  while (!planning) std::this_thread::yield();
  EXPECT_NE(cache.find({1}), nullptr);
  EXPECT_EQ(cache.find({2}), nullptr);
  if (base::ThreadPool::process().cores() > 1) {  // no more plans are made at a time than there are cores
    EXPECT_NE(cache.find_or_make({3}, Clock::steady(), kNewPlan, kKeepsAll), nullptr);
  }
  may_end = true;
  slow.join();
  EXPECT_NE(cache.find({2}), nullptr);
}

}  // namespace
}  // namespace tessera::runtime::plan_cache_test
