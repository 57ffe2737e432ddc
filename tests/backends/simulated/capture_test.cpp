#include "backends/simulated/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/expect_error.h"

namespace tessera::test::capture_test {
namespace {

using backends::simulated::Capture;
using backends::simulated::RecordedWork;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Capture, KeepsTheOrderWithinAndBetweenStreams) {
  Capture capture;
  capture.add(0, {.name = "a"});
  const std::size_t side = capture.join(capture.point_of(0));
  capture.add(side, {.name = "b"});
  capture.add(0, {.name = "c"});
  capture.add(side, {.name = "d"});
  capture.wait(0, capture.point_of(side));
  capture.add(0, {.name = "e"});
  const RecordedWork work = capture.end();
  ASSERT_EQ(work.operations.size(), 5);
  EXPECT_EQ(work.branches, 2);
  EXPECT_THAT(work.operations[1].after, ElementsAre(0));
  EXPECT_THAT(work.operations[2].after, IsEmpty());  // in order on its own stream
  EXPECT_THAT(work.operations[3].after, IsEmpty());
  EXPECT_THAT(work.operations[4].after, ElementsAre(3));
  EXPECT_THAT(work.last, IsEmpty());
}

TEST(Capture, StreamsMayBeJoinedByOthersAndAtTheEnd) {
  Capture capture;
  capture.add(0, {.name = "a"});
  const std::size_t first = capture.join(capture.point_of(0));
  const std::size_t second = capture.join(capture.point_of(0));
  capture.add(first, {.name = "b"});
  capture.wait(second, capture.point_of(first));
  capture.add(second, {.name = "c"});
  capture.wait(0, capture.point_of(second));
  EXPECT_THAT(capture.end().last, ElementsAre(2));
}

TEST(Capture, RefusesStreamsThatAreNotJoinedBack) {
  Capture capture;
  capture.add(0, {.name = "a"});
  const std::size_t side = capture.join(capture.point_of(0));
  capture.add(side, {.name = "b"});
  capture.wait(0, capture.point_of(side));
  capture.add(side, {.name = "c"});  // after the event that the first stream waits for
  expect_error(ErrorKind::failed,
               "a stream that joined a recording was not joined back: the stream on which the recording began waits "
               "for no event after 'c'",
               [&] { capture.end(); });
  EXPECT_TRUE(capture.has_ended());
}

TEST(Capture, StaysInvalid) {
  Capture capture;
  expect_error(ErrorKind::failed, "first", [&] { capture.invalidate("first"); });
  expect_error(ErrorKind::failed, "second", [&] { capture.invalidate("second"); });
  expect_error(ErrorKind::failed, "the recording was invalidated before: first", [&] { capture.check(); });
  expect_error(ErrorKind::failed, "the recording was invalidated before: first", [&] { capture.end(); });
}

TEST(Capture, RefusesUnsafeCallsToItsThreadAlone) {
  Capture capture;
  std::thread([] { Capture::refuse_to_thread("an allocation"); }).join();
  capture.check();
  const std::string refusal = "an allocation is not permitted while the thread records work; the recording is lost";
  expect_error(ErrorKind::failed, refusal, [] { Capture::refuse_to_thread("an allocation"); });
  expect_error(ErrorKind::failed, "the recording was invalidated before: " + refusal, [&] { capture.end(); });
  Capture::refuse_to_thread("an allocation");
}

TEST(Capture, EndsOnItsThread) {
  Capture capture;
  std::thread([&] {
    expect_error(ErrorKind::failed, "a recording must be ended by the thread that began it", [&] { capture.end(); });
  }).join();
}

}  // namespace
}  // namespace tessera::test::capture_test
