#include "backends/simulated/pinned_memory.h"

#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "backends/simulated/simulated_device.h"
#include "support/expect_error.h"

namespace tessera::test::pinned_memory_test {
namespace {

using backends::simulated::PinnedMemory;

TEST(PinnedMemory, KnowsWhatLiesWithinItsBlocks) {
  PinnedMemory memory;
  auto* const block = static_cast<std::byte*>(memory.allocate(100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 4096, 0);
  EXPECT_EQ(memory.bytes(), 100);
  EXPECT_TRUE(memory.contains(block, 100));
  EXPECT_TRUE(memory.contains(block + 99, 1));
  EXPECT_FALSE(memory.contains(block + 99, 2));
  EXPECT_FALSE(memory.contains(block - 1, 1));
  EXPECT_FALSE(memory.contains(block + 100, 1));
  memory.free(block);
  EXPECT_FALSE(memory.contains(block, 1));
  EXPECT_EQ(memory.bytes(), 0);
  expect_error_containing(ErrorKind::over_budget, "of pinned host memory", [&] { memory.allocate(INT64_MAX); });
}

// Pinned memory is read when the stream comes to it; other memory is read before the call returns.
TEST(PinnedMemory, CopiesFromItDoNotHoldTheHostUp) {
  const backends::Device& device = backends::find_device("simulated:h100-sxm,number=1700");
  const Clock& clock = dynamic_cast<const backends::simulated::SimulatedDevice&>(device).timeline().clock();
  constexpr std::int64_t bytes = 64'000'000;  // a millisecond
  backends::DeviceMemory& memory = device.memory();
  void* const block = memory.allocate(bytes);
  void* const pinned = memory.allocate_host(bytes);
  EXPECT_TRUE(memory.is_pinned(static_cast<std::byte*>(pinned) + bytes - 1));
  EXPECT_EQ(memory.pinned_bytes(), bytes);
  const std::vector<std::byte> pageable(bytes);
  const auto stream = device.make_stream();
  stream->copy_to_device(block, pinned, bytes);
  EXPECT_EQ(clock.now_ns(), 0);
  stream->synchronise();
  EXPECT_EQ(clock.now_ns(), 1'005'000);
  stream->copy_to_device(block, pageable.data(), bytes);
  EXPECT_EQ(clock.now_ns(), 2'010'000);
  memory.free(block);
  memory.free_host(pinned);
  EXPECT_EQ(memory.pinned_bytes(), 0);
}

}  // namespace
}  // namespace tessera::test::pinned_memory_test
