#include "serve/core/requests/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::serve::request_queue_test {
namespace {

constexpr std::int64_t kUs = 1000;

QueuedCall queued(const std::string& id, std::int64_t rows, std::int64_t at_ns, const std::string& kind = "k") {
  auto call = std::make_shared<Call>();
  call->request.id = id;
  return {call, {}, rows, at_ns, kind};
}

std::vector<std::string> ids(const std::vector<QueuedCall>& batch) {
  std::vector<std::string> ids;
  for (const QueuedCall& queued : batch) ids.push_back(queued.call->request.id);
  return ids;
}

TEST(RequestQueue, WaitsForOthersUntilTheDelayIsOver) {
  RequestQueue queue({.most_rows = 4, .delay_ns = 100 * kUs});
  queue.add(1, queued("a", 1, 0));
  queue.add(1, queued("b", 1, 10 * kUs));
  EXPECT_TRUE(queue.take_batch(50 * kUs).empty());
  EXPECT_EQ(queue.look_again_ns(), 100 * kUs);
  EXPECT_THAT(ids(queue.take_batch(100 * kUs)), testing::ElementsAre("a", "b"));
}

TEST(RequestQueue, NothingWaitsForOthersUntilItIsLate) {
  RequestQueue queue({.most_rows = 4, .delay_ns = 100 * kUs});
  QueuedCall call = queued("a", 1, 0);
  call.call->deadline_ns = 60 * kUs;
  queue.add(1, call);
  EXPECT_TRUE(queue.take_batch(30 * kUs, 10 * kUs).empty());
  EXPECT_EQ(queue.look_again_ns(), 40 * kUs);
  EXPECT_THAT(ids(queue.take_batch(40 * kUs, 10 * kUs)), testing::ElementsAre("a"));
}

TEST(RequestQueue, TakesAFullBatchAtOnceAndNoMore) {
  RequestQueue queue({.most_rows = 4, .delay_ns = 100 * kUs});
  for (const char* id : {"a", "b", "c"}) queue.add(1, queued(id, 2, 0));
  EXPECT_THAT(ids(queue.take_batch(1)), testing::ElementsAre("a", "b"));
  EXPECT_TRUE(queue.take_batch(1).empty());
}

TEST(RequestQueue, PrefersTheSizesThatWereNamed) {
  RequestQueue queue({.most_rows = 8, .delay_ns = 100 * kUs, .preferred = {2, 4}});
  for (const char* id : {"a", "b", "c"}) queue.add(1, queued(id, 1, 0));
  EXPECT_TRUE(queue.take_batch(1).empty());
  EXPECT_THAT(ids(queue.take_batch(100 * kUs)), testing::ElementsAre("a", "b"));
  for (const char* id : {"d", "e", "f"}) queue.add(1, queued(id, 1, 0));
  EXPECT_THAT(ids(queue.take_batch(1)), testing::ElementsAre("c", "d", "e", "f"));
}

TEST(RequestQueue, MoreImportantRequestsGoFirstAndKindsStayApart) {
  RequestQueue queue({.most_rows = 4});
  queue.add(2, queued("late", 1, 0));
  queue.add(1, queued("other", 1, 0, "another kind"));
  queue.add(1, queued("also", 1, 0, "another kind"));
  EXPECT_EQ(queue.rows_before(1), 2);
  EXPECT_EQ(queue.rows_before(2), 3);
  EXPECT_THAT(ids(queue.take_batch(0)), testing::ElementsAre("other", "also"));
  EXPECT_THAT(ids(queue.take_batch(0)), testing::ElementsAre("late"));
}

TEST(RequestQueue, WhatHasWaitedTooLongGoesBehindOthersOfItsPriority) {
  RequestQueue queue({.most_rows = 1});
  QueuedCall patient = queued("patient", 1, 0);
  patient.postponed_ns = 50;
  queue.add(1, patient);
  queue.add(1, queued("next", 1, 0));
  queue.add(2, queued("less important", 1, 0));
  queue.postpone(49);
  queue.postpone(50);
  queue.postpone(60);  // once
  queue.add(1, queued("newest", 1, 0));
  std::vector<std::string> order;
  while (queue.size() > 0) order.push_back(ids(queue.take_batch(100)).at(0));
  EXPECT_THAT(order, testing::ElementsAre("next", "newest", "patient", "less important"));
}

TEST(RequestQueue, GivesBackWhatNobodyWaitsForAnyMore) {
  RequestQueue queue({.most_rows = 4, .delay_ns = 100 * kUs});
  QueuedCall gone = queued("gone", 1, 0), late = queued("late", 1, 0);
  gone.call->cancellation.cancel();
  late.call->deadline_ns = 50;
  queue.add(1, gone);
  queue.add(1, late);
  queue.add(1, queued("stays", 1, 0));
  EXPECT_THAT(ids(queue.take_lapsed(50)), testing::ElementsAre("gone", "late"));
  EXPECT_EQ(queue.size(), 1);
}

}  // namespace
}  // namespace tessera::serve::request_queue_test
