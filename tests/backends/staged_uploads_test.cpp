#include "backends/staged_uploads.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/backend_table.h"
#include "backends/simulated/simulated_device.h"
#include "support/random_tensor.h"

namespace tessera::test::staged_uploads_test {
namespace {

using backends::StagedUploads;

// Up to `most` blocks of pinned memory at once.
class Blocks {
 public:
  Blocks(backends::DeviceMemory& memory, int most) : memory_(memory), left_(most) {}
  backends::Staging staging() {
    return [this](std::int64_t bytes) -> std::shared_ptr<std::byte> {
      if (left_ == 0) return nullptr;
      --left_;
      ++taken_;
      return {static_cast<std::byte*>(memory_.allocate_host(bytes)), [this](std::byte* block) {
                memory_.free_host(block);
                ++left_;
              }};
    };
  }
  int taken() const { return taken_; }

 private:
  backends::DeviceMemory& memory_;
  int left_, taken_ = 0;
};

const backends::simulated::SimulatedDevice& new_device() {
  static int number = 1800;
  return dynamic_cast<const backends::simulated::SimulatedDevice&>(
      backends::find_device("simulated:t4,number=" + std::to_string(number++)));
}

// Copies `bytes` bytes by at most `blocks` blocks. Returns the time on the clock when the call returned.
std::int64_t copy(std::int64_t bytes, int blocks, int expected_blocks) {
  const auto& device = new_device();
  const Clock& clock = device.timeline().clock();
  backends::DeviceMemory& memory = device.memory();
  Blocks pool(memory, blocks);
  Tensor source = random_tensor(DType::u8, {bytes}, 1, 0, 255);
  const Tensor expected = source.clone();
  void* const block = memory.allocate(bytes);
  const auto stream = device.make_stream();
  Tensor result(DType::u8, {bytes});
  std::int64_t returned = 0;
  {
    StagedUploads uploads(device, pool.staging());
    uploads.copy(*stream, block, source.raw(), bytes);
    returned = clock.now_ns();
    std::memset(source.mutable_raw(), 0, static_cast<std::size_t>(bytes));  // the caller may go on
    stream->copy_to_host(result.mutable_raw(), block, bytes);
    stream->synchronise();
    EXPECT_EQ(pool.taken(), expected_blocks);
    uploads.release();
    EXPECT_EQ(memory.pinned_bytes(), 0);
  }
  EXPECT_TRUE(identical(result, expected));
  memory.free(block);
  return returned;
}

TEST(StagedUploads, ReturnBeforeTheCopyIsDone) {
  EXPECT_EQ(copy(10 << 20, 3, 3), 0);
  EXPECT_EQ(copy(5, 1, 1), 0);
}

TEST(StagedUploads, WaitForEarlierPiecesWhereBlocksAreRare) {
  const std::int64_t returned = copy(10 << 20, 1, 3);
  EXPECT_GT(returned, 0);
  EXPECT_LT(returned, copy(10 << 20, 0, 0)) << "the last piece is not waited for";
}

TEST(StagedUploads, CopyPinnedMemoryAsItIs) {
  const auto& device = new_device();
  backends::DeviceMemory& memory = device.memory();
  Blocks pool(memory, 1);
  void *const block = memory.allocate(100), *const pinned = memory.allocate_host(100);
  const auto stream = device.make_stream();
  StagedUploads uploads(device, pool.staging());
  uploads.copy(*stream, block, pinned, 100);
  EXPECT_EQ(pool.taken(), 0);
  stream->synchronise();
  memory.free(block);
  memory.free_host(pinned);
}

}  // namespace
}  // namespace tessera::test::staged_uploads_test
