#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include "base/numbers/philox.h"
#include "tessera/error.h"

namespace tessera::plan::memory_plan_test {
namespace {

bool overlap_in_time(const BufferRequest& a, const BufferRequest& b) {
  return a.first <= b.last && b.first <= a.last;
}

void expect_sound(const std::vector<BufferRequest>& requests, const MemoryPlan& plan) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kArenaAlignment, 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.arena_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!overlap_in_time(requests[i], requests[j])) continue;
      const bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart) << "buffers " << i << " and " << j << " overlap";
    }
  }
}

TEST(MemoryPlan, NoRequestsNeedNoArena) {
  EXPECT_EQ(plan_memory({}).arena_bytes, 0);
}

TEST(MemoryPlan, AChainNeedsTwoNeighbours) {
  std::vector<BufferRequest> chain;
  for (std::int64_t i = 0; i < 10; ++i) chain.push_back({640, i, i + 1});
  const MemoryPlan plan = plan_memory(chain);
  expect_sound(chain, plan);
  EXPECT_EQ(plan.arena_bytes, 1280);
  EXPECT_EQ(plan.largest_live_bytes, 1280);
}

TEST(MemoryPlan, RandomLifetimesStaySoundAndNearTheBound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    base::Philox random(seed);
    std::vector<BufferRequest> requests;
    for (int i = 0; i < 120; ++i) {
      const std::int64_t first = random.next_integer(0, 100);
      requests.push_back({random.next_integer(1, 5000), first, first + random.next_integer(0, 6)});
    }
    const MemoryPlan plan = plan_memory(requests);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_sound(requests, plan);
    EXPECT_GE(plan.arena_bytes, plan.largest_live_bytes);
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.25 * static_cast<double>(plan.largest_live_bytes));
  }
}

// To compare each buffer with each other one would take hours.
TEST(MemoryPlan, AChainOfManyBuffersIsPlannedInLinearTime) {
  std::vector<BufferRequest> chain;
  for (std::int64_t i = 0; i < 300'000; ++i) chain.push_back({64 * (1 + i % 3), i, i + 2});
  const MemoryPlan plan = plan_memory(chain);
  EXPECT_GE(plan.arena_bytes, plan.largest_live_bytes);
  EXPECT_LE(plan.arena_bytes, 2 * plan.largest_live_bytes);
}

// Where too many overlap to list them, as in a training step, buffers are placed alike.
TEST(MemoryPlan, ManyLongLivesStaySound) {
  constexpr std::int64_t kMany = 3000;
  std::vector<BufferRequest> requests;
  for (std::int64_t i = 0; i < kMany; ++i) requests.push_back({64 * (1 + i % 7), i, 2 * kMany - i});
  const MemoryPlan plan = plan_memory(requests);
  EXPECT_EQ(plan.arena_bytes, plan.largest_live_bytes);
  expect_sound(requests, plan);
}

TEST(MemoryPlan, RefusesSizesThatOverflow) {
  EXPECT_THROW(plan_memory({{INT64_MAX / 2, 0, 1}, {INT64_MAX / 2, 0, 1}, {INT64_MAX / 2, 0, 1}}), Error);
}

}  // namespace
}  // namespace tessera::plan::memory_plan_test
