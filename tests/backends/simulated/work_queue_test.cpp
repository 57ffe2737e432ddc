#include "backends/simulated/work_queue.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tessera::test::work_queue_test {
namespace {

using backends::simulated::WorkQueue;

TEST(WorkQueue, RunsTasksInOrderOnAThreadOfItsOwn) {
  WorkQueue queue;
  std::string order;
  std::thread::id thread;
  for (char letter = 'a'; letter < 'g'; ++letter) queue.push([&order, letter] { order += letter; });
  queue.push([&thread] { thread = std::this_thread::get_id(); });
  EXPECT_EQ(queue.take_failure(), nullptr);
  EXPECT_EQ(order, "abcdef");
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(WorkQueue, SkipsTasksBehindAFailureUntilItIsTaken) {
  WorkQueue queue;
  std::string order;
  bool told = false;
  queue.push([&order] { order += 'a'; });
  queue.push([] { throw std::runtime_error("broken"); });
  queue.push([&order] { order += 'b'; });
  queue.push_always([&told](const std::exception_ptr& failure) { told = failure != nullptr; });
  const std::exception_ptr failure = queue.take_failure();
  ASSERT_NE(failure, nullptr);
  EXPECT_THROW(std::rethrow_exception(failure), std::runtime_error);
  EXPECT_TRUE(told);
  queue.push([&order] { order += 'c'; });
  EXPECT_EQ(queue.take_failure(), nullptr);
  EXPECT_EQ(order, "ac");
}

TEST(WorkQueue, EndsWhenItIsEmpty) {
  int done = 0;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; ++i) queue.push([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace tessera::test::work_queue_test
