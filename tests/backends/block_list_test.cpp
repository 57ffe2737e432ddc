#include "backends/block_list.h"

#include <gtest/gtest.h>

namespace tessera::test::block_list_test {
namespace {

using backends::BlockList;

TEST(BlockList, TakesTheLowestPlaceThatFits) {
  BlockList blocks(1024);
  EXPECT_EQ(blocks.take(1), 0);
  EXPECT_EQ(blocks.take(257), 256);
  EXPECT_EQ(blocks.take(256), 768);
  EXPECT_EQ(blocks.in_use(), 1024);
  EXPECT_EQ(blocks.take(1), std::nullopt);
  EXPECT_EQ(blocks.give_back(256), 512);
  EXPECT_EQ(blocks.give_back(0), 256);
  EXPECT_EQ(blocks.largest_free(), 768);
  EXPECT_EQ(blocks.take(700), 0);
}

TEST(BlockList, FreeNeighboursBecomeOne) {
  BlockList blocks(1024);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(blocks.take(256), 256 * i);
  blocks.give_back(0);
  blocks.give_back(512);
  EXPECT_EQ(blocks.largest_free(), 256);
  EXPECT_EQ(blocks.take(512), std::nullopt);
  blocks.give_back(256);
  EXPECT_EQ(blocks.largest_free(), 768);
  blocks.give_back(768);
  EXPECT_EQ(blocks.largest_free(), 1024);
  EXPECT_EQ(blocks.in_use(), 0);
}

TEST(BlockList, GrowsBehindItsEnd) {
  BlockList blocks;
  EXPECT_EQ(blocks.take(1), std::nullopt);
  blocks.extend(512);
  EXPECT_EQ(blocks.take(256), 0);
  blocks.extend(256);  // one block with what was free before
  EXPECT_EQ(blocks.bytes(), 768);
  EXPECT_EQ(blocks.take(512), 256);
}

TEST(BlockList, RefusesWhatIsLargerThanEverything) {
  BlockList blocks(1000);  // 768 of which are whole blocks
  EXPECT_EQ(blocks.take(769), std::nullopt);
  EXPECT_EQ(blocks.take(INT64_MAX), std::nullopt);
  EXPECT_EQ(blocks.take(768), 0);
}

}  // namespace
}  // namespace tessera::test::block_list_test
