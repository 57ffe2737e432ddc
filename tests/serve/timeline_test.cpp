#include "serve/core/operations/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::serve::timeline_test {
namespace {

void run(RunTimeline& timeline, const std::string& model, std::int64_t start_ns, std::int64_t end_ns,
         std::int64_t rows = 1) {
  const std::size_t number = timeline.number_of(model);
  timeline.end(number, timeline.begin(number), start_ns, end_ns, rows);
}

TEST(RunTimeline, RunsThatFollowEachOtherCloselyAreOneBar) {
  RunTimeline timeline;
  run(timeline, "a/1", 100, 200);
  run(timeline, "a/1", 205, 300, 3);
  run(timeline, "a/1", 400, 500);
  const std::vector<TimelineLane> lanes = timeline.since(0, 10);
  ASSERT_EQ(lanes.size(), 1u);
  ASSERT_EQ(lanes[0].bars.size(), 2u);
  const TimelineBar& bar = lanes[0].bars[0];
  EXPECT_EQ(bar.start_ns, 100);
  EXPECT_EQ(bar.end_ns, 300);
  EXPECT_EQ(bar.busy_ns, 195);
  EXPECT_EQ(bar.runs, 2);
  EXPECT_EQ(bar.rows, 4);
  EXPECT_EQ(lanes[0].bars[1].start_ns, 400);
}

TEST(RunTimeline, RunsAtOneTimeHaveLanesAndOldOnesAreNotShown) {
  RunTimeline timeline;
  const std::size_t a = timeline.number_of("a/1"), b = timeline.number_of("b/2");
  EXPECT_EQ(timeline.number_of("a/1"), a);
  const int first = timeline.begin(a), second = timeline.begin(a), other = timeline.begin(b);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(other, 0);
  timeline.end(a, first, 10, 20, 1);
  EXPECT_EQ(timeline.begin(a), 0);  // free again
  timeline.end(a, second, 10, 60, 1);
  timeline.end(b, other, 10, 80, 1);
  const std::vector<TimelineLane> lanes = timeline.since(50, 1);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].model, "a/1");
  EXPECT_EQ(lanes[0].lane, 1);
  EXPECT_EQ(lanes[1].model, "b/2");
}

TEST(RunTimeline, IsBounded) {
  RunTimeline timeline;
  for (std::int64_t i = 0; i < 100'000; ++i) run(timeline, "a/1", 10 * i, 10 * i + 1);
  const std::vector<TimelineLane> lanes = timeline.since(-1, 1);
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_LT(lanes[0].bars.size(), 40'000u);
  EXPECT_EQ(lanes[0].bars.back().start_ns, 999'990);
}

}  // namespace
}  // namespace tessera::serve::timeline_test
