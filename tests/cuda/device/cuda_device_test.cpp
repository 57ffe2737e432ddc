// The device contract (backends/stream.h) of the CUDA backend, on the simulated driver.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backends/backend_table.h"
#include "backends/device_activity.h"
#include "backends/device_properties.h"
#include "driver/control.h"
#include "support/expect_error.h"

namespace tessera::test::cuda_device_test {
namespace {

const backends::Device& gpu() {
  return backends::find_device("cuda");
}

// A block of device memory, and one of pinned host memory.
struct Block {
  explicit Block(std::int64_t bytes) : address(gpu().memory().allocate(bytes)) {}
  ~Block() { gpu().memory().free(address); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* address;
};
struct Pinned {
  explicit Pinned(std::int64_t bytes)
      : address(static_cast<std::byte*>(gpu().memory().allocate_host(bytes))), bytes(static_cast<std::size_t>(bytes)) {}
  ~Pinned() { gpu().memory().free_host(address); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void fill(int value) const { std::memset(address, value, bytes); }
  bool holds(int value) const {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (address[i] != static_cast<std::byte>(value)) return false;
    }
    return true;
  }
  std::byte* address;
  std::size_t bytes;
};

TEST(CudaDevice, IsNamedByKindOrdinalAndUuid) {
  EXPECT_EQ(gpu().name(), "cuda:0");
  EXPECT_EQ(&backends::find_device("cuda:0"), &gpu());
  EXPECT_EQ(&backends::find_device(gpu().properties().uuid), &gpu());
  expect_error_containing(ErrorKind::invalid_argument, "there is no device 'cuda:7'",
                          [] { backends::find_device("cuda:7"); });
  expect_error_containing(ErrorKind::invalid_argument, "there is no device 'cuda:x'",
                          [] { backends::find_device("cuda:x"); });
}

TEST(CudaDevice, TellsItsHardware) {
  const backends::DeviceProperties& properties = gpu().properties();
  EXPECT_EQ(properties.warp_size, 32);
  EXPECT_GT(properties.multiprocessors, 0);
  EXPECT_TRUE(properties.native_products.bf16);
  EXPECT_TRUE(properties.instruction_set.starts_with("sm_"));
}

TEST(CudaMemory, BlocksAreAlignedAndReused) {
  backends::DeviceMemory& memory = gpu().memory();
  const std::int64_t before = memory.in_use_bytes();
  void* const first = memory.allocate(1000);
  void* const second = memory.allocate(1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
  EXPECT_TRUE(memory.contains(first) && memory.contains(second));
  EXPECT_FALSE(memory.contains(&before));
  EXPECT_EQ(memory.in_use_bytes() - before, 1024 + 256);
  memory.free(first);
  EXPECT_EQ(memory.allocate(900), first);
  memory.free(first);
  memory.free(second);
  EXPECT_EQ(memory.in_use_bytes(), before);
}

TEST(CudaMemory, GrowsBeyondItsFirstPartAndEndsAtTheCapacity) {
  backends::DeviceMemory& memory = gpu().memory();
  const std::int64_t large = std::int64_t{200} << 20;
  void* const block = memory.allocate(large);
  memory.free(block);
  expect_error_containing(ErrorKind::over_budget, "has no place for",
                          [&] { memory.allocate(memory.capacity_bytes() + 1); });
}

TEST(CudaMemory, ABlockFreedOnAStreamIsTheStreamsAtOnce) {
  backends::DeviceMemory& memory = gpu().memory();
  const auto stream = gpu().make_stream();
  void* const block = memory.allocate(4096, stream.get());
  memory.free(block, stream.get());
  EXPECT_EQ(memory.allocate(4096, stream.get()), block);
  stream->synchronise();
  memory.free(block);
}

TEST(CudaMemory, KnowsWhatIsPinned) {
  const Pinned pinned(100);
  EXPECT_TRUE(gpu().memory().is_pinned(pinned.address) && gpu().memory().is_pinned(pinned.address + 99));
  EXPECT_FALSE(gpu().memory().is_pinned(pinned.address + 100) || gpu().memory().is_pinned(&pinned));
}

TEST(CudaStream, CopiesThereAndBack) {
  const auto stream = gpu().make_stream();
  const Pinned from(3000), to(3000);
  const Block first(3000), second(3000);
  from.fill(7);
  stream->copy_to_device(first.address, from.address, 3000);
  stream->copy_within(second.address, first.address, 3000);
  stream->copy_to_host(to.address, second.address, 3000);
  stream->synchronise();
  EXPECT_TRUE(to.holds(7));
  stream->fill(second.address, std::byte{9}, 3000);
  stream->copy_to_host(to.address, second.address, 3000);
  stream->synchronise();
  EXPECT_TRUE(to.holds(9));
}

TEST(CudaStream, WaitsForEventsOfOthers) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    tessera_simulated_cuda_set_seed(seed);
    const auto writer = gpu().make_stream(), reader = gpu().make_stream();
    const auto written = gpu().make_event();
    const Pinned from(512), to(512);
    const Block block(512);
    from.fill(static_cast<int>(seed) + 1);
    writer->copy_to_device(block.address, from.address, 512);
    writer->record(*written);
    reader->wait(*written);
    reader->copy_to_host(to.address, block.address, 512);
    reader->synchronise();
    EXPECT_TRUE(to.holds(static_cast<int>(seed) + 1)) << seed;
  }
  tessera_simulated_cuda_set_seed(0);
}

TEST(CudaEvent, TimesGrow) {
  const auto stream = gpu().make_stream();
  const auto first = gpu().make_event(), second = gpu().make_event(), never = gpu().make_event();
  const Block block(1 << 20);
  stream->record(*first);
  stream->fill(block.address, std::byte{0}, 1 << 20);
  stream->record(*second);
  second->wait();
  EXPECT_TRUE(first->done() && second->done() && never->done());
  EXPECT_GE(second->time_ns(), first->time_ns());
  EXPECT_EQ(never->time_ns(), 0);
}

TEST(CudaRecording, IsReplayedAndUpdated) {
  const auto stream = gpu().make_stream();
  const Pinned to(256);
  const Block first(256), second(256);
  const auto record = [&](const Block& block, std::unique_ptr<backends::Recording> previous) {
    stream->begin_capture();
    EXPECT_TRUE(stream->is_capturing());
    stream->fill(block.address, std::byte{5}, 256);
    stream->copy_to_host(to.address, block.address, 256);
    return stream->end_capture(std::move(previous));
  };
  const backends::DeviceActivity before = gpu().activity();
  std::unique_ptr<backends::Recording> recording = record(first, nullptr);
  to.fill(0);
  recording->replay(*stream);
  stream->synchronise();
  EXPECT_TRUE(to.holds(5));
  recording = record(second, std::move(recording));
  to.fill(0);
  recording->replay(*stream);
  stream->synchronise();
  EXPECT_TRUE(to.holds(5));
  const backends::DeviceActivity spent = gpu().activity() - before;
  EXPECT_EQ(spent.instantiations, 1);
  EXPECT_EQ(spent.updates, 1);
  EXPECT_EQ(spent.replays, 2);
}

TEST(CudaRecording, AnotherOrderOfWorkIsAnotherRecording) {
  const auto stream = gpu().make_stream();
  const Block block(256);
  stream->begin_capture();
  stream->fill(block.address, std::byte{5}, 256);
  std::unique_ptr<backends::Recording> recording = stream->end_capture();
  const backends::DeviceActivity before = gpu().activity();
  stream->begin_capture();
  stream->fill(block.address, std::byte{5}, 256);
  stream->fill(block.address, std::byte{6}, 256);
  recording = stream->end_capture(std::move(recording));
  EXPECT_EQ((gpu().activity() - before).instantiations, 1);
}

TEST(CudaStream, FailuresAreReportedByTheirNames) {
  const auto stream = gpu().make_stream();
  const Block block(256);
  tessera_simulated_cuda_fail("cuMemsetD8Async", 1, 719);
  expect_error_containing(ErrorKind::failed, "CUDA_ERROR_LAUNCH_FAILED",
                          [&] { stream->fill(block.address, std::byte{1}, 256); });
  tessera_simulated_cuda_recover();
  stream->fill(block.address, std::byte{1}, 256);
  stream->synchronise();
}

}  // namespace
}  // namespace tessera::test::cuda_device_test
