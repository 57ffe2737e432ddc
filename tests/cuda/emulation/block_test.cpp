#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "backends/cuda/kernels/device_code.h"
#include "emulation/faults.h"

namespace tessera::emulation {
namespace {

using cuda::dynamic_shared;
using cuda::static_shared;
using testing::HasSubstr;

void write_places(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * 24 + thread] = static_cast<int>(block * 1000 + threadIdx.x * 100 + threadIdx.y * 10 + threadIdx.z);
}

TEST(EmulatedBlock, NumbersThreadsAndBlocksAsCuda) {
  const DeviceBuffer<int> out(24 * 6);
  LaunchOptions options;
  options.grid = {3, 2, 1};
  options.block = {4, 3, 2};
  for (const std::uint64_t seed : {0, 1, 2}) {
    options.seed = seed;
    launch(options, write_places, out.data());
    for (int block = 0; block < 6; ++block) {
      for (int thread = 0; thread < 24; ++thread) {
        const int expected = block * 1000 + thread % 4 * 100 + thread / 4 % 3 * 10 + thread / 12;
        ASSERT_EQ(out.values()[static_cast<std::size_t>(block * 24 + thread)], expected);
      }
    }
  }
}

struct Tile {
  int values[256];
};

void reverse(const int* in, int* out) {
  auto& tile = static_shared<Tile>();
  tile.values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile.values[blockDim.x - 1 - threadIdx.x];
}

TEST(EmulatedBlock, BarrierLetsThreadsSeeEachOthersWrites) {
  std::vector<int> numbers(256);
  std::iota(numbers.begin(), numbers.end(), 0);
  const DeviceBuffer<int> in(numbers), out(256);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    launch(one_block(256, seed), reverse, in.data(), out.data());
    std::vector<int> expected(numbers.rbegin(), numbers.rend());
    EXPECT_TRUE(std::ranges::equal(out.values(), expected)) << "seed " << seed;
  }
}

void record_order(int* order, unsigned* next) {
  order[atomicAdd(next, 1u)] = static_cast<int>(threadIdx.x);
}

TEST(EmulatedBlock, SeedsShuffleTheScheduleAndRepeatIt) {
  const auto order_of = [](std::uint64_t seed) {
    const DeviceBuffer<int> order(64);
    const DeviceBuffer<unsigned> next(std::vector<unsigned>{0});
    launch(one_block(64, seed), record_order, order.data(), next.data());
    return std::vector<int>(order.values().begin(), order.values().end());
  };
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<int> order = order_of(seed);
    EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), order_of(0).begin()));
    EXPECT_EQ(order, order_of(seed));
    orders.insert(order);
  }
  EXPECT_TRUE(std::ranges::is_sorted(order_of(0)));
  EXPECT_EQ(orders.size(), 10u);
}

void poison(float* statically, float* dynamically) {
  statically[threadIdx.x] = static_shared<float[32]>()[threadIdx.x];
  dynamically[threadIdx.x] = reinterpret_cast<float*>(dynamic_shared())[threadIdx.x];
  __syncthreads();
  static_shared<float[32]>()[threadIdx.x] = 1;
  reinterpret_cast<float*>(dynamic_shared())[threadIdx.x] = 1;
}

TEST(EmulatedBlock, SharedMemoryIsPoisonedForEachBlock) {
  const DeviceBuffer<float> statically(32), dynamically(32);
  LaunchOptions options = one_block(32);
  options.grid = {3, 1, 1};
  options.dynamic_shared_bytes = 128;
  launch(options, poison, statically.data(), dynamically.data());
  for (const float value : statically.values()) EXPECT_TRUE(std::isnan(value));
  for (const float value : dynamically.values()) EXPECT_TRUE(std::isnan(value));
}

void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(0xFFFFFFFFu, lane * 10, 5);
  out[32 + lane] = __shfl_xor_sync(0xFFFFFFFFu, lane, 3);
  out[64 + lane] = __shfl_down_sync(0xFFFFFFFFu, lane, 4, 8);
  out[96 + lane] = __shfl_up_sync(0xFFFFFFFFu, lane, 4, 8);
  out[128 + lane] = __shfl_sync(0xFFFFFFFFu, lane, 9, 8);
}

TEST(EmulatedWarp, ShufflesWithinSegments) {
  const DeviceBuffer<int> out(160);
  launch(one_block(32, 3), shuffles, out.data());
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = [&](int begin) { return out.values()[static_cast<std::size_t>(begin + lane)]; };
    EXPECT_EQ(at(0), 50);
    EXPECT_EQ(at(32), lane ^ 3);
    EXPECT_EQ(at(64), lane % 8 < 4 ? lane + 4 : lane);  // beyond the segment: the lane's own value
    EXPECT_EQ(at(96), lane % 8 >= 4 ? lane - 4 : lane);
    EXPECT_EQ(at(128), lane / 8 * 8 + 1);  // lane numbers wrap in the segment
  }
}

void votes(unsigned* out) {
  const unsigned lane = threadIdx.x;
  if (lane >= 20) return;  // threads that have ended do not count
  out[lane * 4] = __ballot_sync(0xFFFFFFFFu, lane % 3 == 0);
  out[lane * 4 + 1] = static_cast<unsigned>(__any_sync(0xFFFFFFFFu, lane == 7));
  out[lane * 4 + 2] = static_cast<unsigned>(__all_sync(0xFFFFFFFFu, lane < 20));
  if (lane < 8) out[lane * 4 + 3] = __ballot_sync(0xFFu, 1);
}

TEST(EmulatedWarp, VotesOfSomeLanes) {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    const DeviceBuffer<unsigned> out(128);
    launch(one_block(32, seed), votes, out.data());
    for (std::size_t lane = 0; lane < 20; ++lane) {
      EXPECT_EQ(out.values()[lane * 4], 0x49249u);
      EXPECT_EQ(out.values()[lane * 4 + 1], 1u);
      EXPECT_EQ(out.values()[lane * 4 + 2], 1u);
      if (lane < 8) {
        EXPECT_EQ(out.values()[lane * 4 + 3], 0xFFu);
      }
    }
  }
}

void count_votes(int* out) {
  out[threadIdx.x] = __syncthreads_count(threadIdx.x % 5 == 0) * 100 + __syncthreads_or(threadIdx.x == 3) * 10 +
                     __syncthreads_and(threadIdx.x != 3);
}

TEST(EmulatedBlock, BarriersThatCombinePredicates) {
  const DeviceBuffer<int> out(70);
  launch(one_block(70, 5), count_votes, out.data());
  for (const int value : out.values()) EXPECT_EQ(value, 1410);
}

void atomics(int* sum, int* most, int* least, unsigned* swapped, float* real) {
  atomicAdd(sum, static_cast<int>(threadIdx.x));
  atomicMax(most, static_cast<int>(threadIdx.x));
  atomicMin(least, -static_cast<int>(threadIdx.x));
  atomicAdd(real, 0.5f);
  for (unsigned old = atomicAdd(swapped, 0u);;) {  // adds by compare and swap
    const unsigned seen = atomicCAS(swapped, old, old + 2);
    if (seen == old) break;
    old = seen;
  }
}

TEST(EmulatedBlock, Atomics) {
  const DeviceBuffer<int> values(std::vector<int>{0, 0, 0});
  const DeviceBuffer<unsigned> swapped(std::vector<unsigned>{0});
  const DeviceBuffer<float> real(std::vector<float>{0});
  LaunchOptions options = one_block(96, 4);
  options.grid = {2, 1, 1};
  launch(options, atomics, values.data(), values.data() + 1, values.data() + 2, swapped.data(), real.data());
  EXPECT_EQ(values.values()[0], 2 * 95 * 96 / 2);
  EXPECT_EQ(values.values()[1], 95);
  EXPECT_EQ(values.values()[2], -95);
  EXPECT_EQ(swapped.values()[0], 384u);
  EXPECT_EQ(real.values()[0], 96.0f);
}

// The first two warps produce, the third one consumes: it alone waits.
void hand_over(int* out) {
  auto& tile = static_shared<Tile>();
  if (threadIdx.x < 64) {
    tile.values[threadIdx.x] = static_cast<int>(threadIdx.x) * 3;
    cuda::ptx::barrier_arrive(4, 96);
  } else {
    cuda::ptx::barrier_sync(4, 96);
    out[threadIdx.x - 64] = tile.values[threadIdx.x - 64] + tile.values[threadIdx.x - 32];
  }
}

TEST(EmulatedBlock, NamedBarriers) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const DeviceBuffer<int> out(32);
    launch(one_block(96, seed), hand_over, out.data());
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out.values()[static_cast<std::size_t>(i)], 3 * (2 * i + 32));
  }
}

void barrier_of_half() {
  if (threadIdx.x < 32) cuda::ptx::barrier_sync(1, 64);
}
void barrier_of_odd_count() {
  cuda::ptx::barrier_sync(1, 40);
}
void barrier_of_two_counts() {
  cuda::ptx::barrier_sync(1, threadIdx.x < 32 ? 64 : 96);
}
void divergent_barrier() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
void mask_without_self() {
  __shfl_sync(0xFFFEu, 1, 0);
}
void masks_that_differ() {
  __shfl_xor_sync(threadIdx.x < 16 ? 0xFFFFFFFFu : 0xFFFF0001u, 1, 1);
}
void lane_that_goes_elsewhere() {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    __shfl_sync(0xFFFFFFFFu, 1, 0);
    __syncthreads();
  }
}
void too_much_shared() {
  static_shared<float[70000]>()[threadIdx.x] = 0;
}
int recurse(int depth) {
  volatile int place[256];
  place[depth % 256] = depth;
  return depth == 0 ? 0 : recurse(depth - 1) + place[depth % 256];
}
void deep_stack(int* out) {
  *out = recurse(1000);
}

TEST(EmulatedFaults, NameThreadsOperationsAndPlaces) {
  EXPECT_THAT(fault_of(one_block(64), barrier_of_half),
              HasSubstr("deadlock: 32 threads, the first of number 0, wait at bar.sync (block_test.cpp:"));
  EXPECT_THAT(fault_of(one_block(64), barrier_of_odd_count),
              HasSubstr("bar.sync for 40 threads, which is no multiple of 32"));
  EXPECT_THAT(fault_of(one_block(96), barrier_of_two_counts), HasSubstr("where others came for 64"));
  EXPECT_THAT(fault_of(one_block(32), divergent_barrier),
              HasSubstr("__syncthreads is reached by threads of the block at two places"));
  EXPECT_THAT(fault_of(one_block(32), mask_without_self), HasSubstr("by a thread that its mask 0xfffe does not name"));
  EXPECT_THAT(fault_of(one_block(32), masks_that_differ), HasSubstr("waits for thread ("));
  EXPECT_THAT(fault_of(one_block(32), lane_that_goes_elsewhere),
              HasSubstr("31 threads, the first of number 0, wait at __shfl_sync"));
  EXPECT_THAT(fault_of(one_block(32), too_much_shared), HasSubstr("shared memory is exhausted"));
  LaunchOptions options = one_block(32);
  options.dynamic_shared_bytes = 300 * 1024;
  EXPECT_THAT(fault_of(options, barrier_of_half), HasSubstr("a block has 232448"));
  EXPECT_THAT(fault_of(one_block(1025), barrier_of_half), HasSubstr("1025 threads"));
}

TEST(EmulatedFaults, FindAStackThatOverflows) {
  if (sanitizers::kAddresses || sanitizers::kRaces) GTEST_SKIP() << "the sanitizer reports it and ends the process";
  const DeviceBuffer<int> out(1);
  EXPECT_THAT(fault_of(one_block(1), deep_stack, out.data()), HasSubstr("the thread's stack overflowed"));
}

// A fault leaves nothing behind that the next launch sees.
TEST(EmulatedFaults, LeaveTheNextLaunchAlone) {
  std::vector<int> numbers(256, 7);
  const DeviceBuffer<int> in(numbers), out(256);
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(fault_of(one_block(32), masks_that_differ), "");
    launch(one_block(256), reverse, in.data(), out.data());
    EXPECT_TRUE(std::ranges::equal(out.values(), numbers));
  }
}

void add(int a, const int* b, int* out) {
  *out = a + *b;
}

TEST(EmulatedLaunch, TakesArgumentsAsTheDriverDoes) {
  const DeviceBuffer<int> b(std::vector<int>{4}), out(1);
  int first = 3;
  const int* second = b.data();
  int* third = out.data();
  void* arguments[] = {&first, &second, &third};
  const PackedKernel kernel = &Packed<&add>::call;
  run_grid(one_block(1), [&] { kernel(arguments); });
  EXPECT_EQ(out.values()[0], 7);
}

}  // namespace
}  // namespace tessera::emulation
