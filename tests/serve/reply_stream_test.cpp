#include "serve/http/reply_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::serve::reply_stream_test {
namespace {

std::vector<bool> seen;  // what `next` was called with

ReplyStream::Next next() {
  return [](bool is_open) { seen.push_back(is_open); };
}

class ReplyStreams : public testing::Test {
 protected:
  void SetUp() override { seen.clear(); }
  ReplyStream stream;
};

TEST_F(ReplyStreams, GiveTheBytesInOrderAndEnd) {
  stream.write("one ", next());
  stream.write("two", next());
  EXPECT_EQ(seen, (std::vector<bool>{true, true}));
  const auto piece = stream.take();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->bytes, "one two");
  EXPECT_FALSE(piece->is_last);
  EXPECT_FALSE(stream.take());
  stream.end();
  const auto last = stream.take();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->bytes, "");
  EXPECT_TRUE(last->is_last);
}

TEST_F(ReplyStreams, HoldTheMakerBackUntilWhatWaitsIsSent) {
  stream.write(std::string(ReplyStream::kMostWaitingBytes, 'a'), next());
  EXPECT_TRUE(seen.empty());
  ASSERT_TRUE(stream.take());
  EXPECT_TRUE(seen.empty());
  stream.sent();
  EXPECT_EQ(seen, std::vector<bool>{true});
  stream.sent();
  EXPECT_EQ(seen.size(), 1u);
}

TEST_F(ReplyStreams, WakeTheConnectionOnceAfterItFoundNothing) {
  int wakes = 0;
  stream.attach([&] { ++wakes; });
  stream.write("a", next());
  EXPECT_EQ(wakes, 0);  // the connection has not looked yet
  ASSERT_TRUE(stream.take());
  ASSERT_FALSE(stream.take());
  stream.write("b", next());
  stream.write("c", next());
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(stream.take()->bytes, "bc");
  ASSERT_FALSE(stream.take());
  stream.end();
  EXPECT_EQ(wakes, 2);
}

TEST_F(ReplyStreams, TellTheMakerThatTheConnectionIsClosed) {
  stream.write(std::string(ReplyStream::kMostWaitingBytes, 'a'), next());
  stream.close();
  EXPECT_EQ(seen, std::vector<bool>{false});
  stream.write("b", next());
  EXPECT_EQ(seen, (std::vector<bool>{false, false}));
  stream.end();
  EXPECT_EQ(stream.take()->bytes, "");
}

}  // namespace
}  // namespace tessera::serve::reply_stream_test
