#include "backends/simulated/mirrored_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tessera::test::mirrored_memory_test {
namespace {

using backends::simulated::MirroredMemory;

constexpr std::int64_t kBytes = std::int64_t{64} << 20;

TEST(MirroredMemory, QueueReachesWhatDeviceAddressesName) {
  MirroredMemory memory(kBytes);
  std::byte* const address = memory.device_base() + 4096;
  std::memset(memory.queue_address(address), 7, 100);
  EXPECT_EQ(*memory.queue_address(memory.device_base() + 4195), std::byte{7});
  EXPECT_EQ(*memory.queue_address(memory.device_base() + 4196), std::byte{0});
}

TEST(MirroredMemory, OtherAddressesStayAsTheyAre) {
  MirroredMemory memory(kBytes);
  int number = 0;
  EXPECT_EQ(memory.queue_address(&number), &number);
  EXPECT_EQ(memory.queue_address(static_cast<int*>(nullptr)), nullptr);
  EXPECT_TRUE(memory.contains(memory.device_base()));
  EXPECT_TRUE(memory.contains(memory.device_base() + kBytes - 1));
  EXPECT_FALSE(memory.contains(memory.device_base() + kBytes));
}

TEST(MirroredMemory, DiscardedPagesReadAsZeros) {
  MirroredMemory memory(kBytes);
  std::byte* const first = memory.queue_address(memory.device_base());
  std::memset(first, 7, 3 * 4096);
  memory.discard(100, 2 * 4096);  // the second page alone is whole
  EXPECT_EQ(first[4095], std::byte{7});
  EXPECT_EQ(first[4096], std::byte{0});
  EXPECT_EQ(first[2 * 4096], std::byte{7});
}

TEST(MirroredMemoryDeathTest, HostThatTouchesDeviceMemoryCrashes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  MirroredMemory memory(kBytes);
  volatile std::byte* const address = memory.device_base() + 64;
  EXPECT_DEATH(static_cast<void>(*address), "");
  EXPECT_DEATH(*address = std::byte{1}, "");
}

}  // namespace
}  // namespace tessera::test::mirrored_memory_test
