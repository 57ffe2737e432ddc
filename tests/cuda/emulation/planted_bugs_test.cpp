// Kernels with bugs that real kernels have had. Each is right without its bug under every schedule, and found with it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backends/cuda/kernels/device_code.h"
#include "emulation/faults.h"

namespace tessera::emulation {
namespace {

using cuda::static_shared;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int kCount = 128;

std::vector<float> ramp(int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  return values;
}

// The sum of the block's values by a tree in shared memory.
template <bool kMissingBarrier>
void tree_sum(const float* in, float* out) {
  auto& values = static_shared<float[kCount]>();
  values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (unsigned step = kCount / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) values[threadIdx.x] += values[threadIdx.x + step];
    if constexpr (!kMissingBarrier) __syncthreads();
  }
  if (threadIdx.x == 0) *out = values[0];
}

TEST(PlantedBugs, MissingBarrierShowsInTheResult) {
  const DeviceBuffer<float> in(ramp(kCount)), out(1);
  const float expected = kCount * (kCount - 1) / 2;
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    launch(one_block(kCount, seed), tree_sum<false>, in.data(), out.data());
    EXPECT_EQ(out.values()[0], expected) << "seed " << seed;
    if constexpr (sanitizers::kRaces) continue;
    launch(one_block(kCount, seed), tree_sum<true>, in.data(), out.data());
    wrong += out.values()[0] != expected ? 1 : 0;
  }
  EXPECT_GT(wrong, sanitizers::kRaces ? -1 : 10);
}

// Sums tiles that a ring of two buffers brings: tile t + 1 is under way while tile t is read.
template <int kPending, bool kSecondBarrier>
void pipelined_sum(const float* in, float* out, int tiles) {
  struct Ring {
    alignas(16) float values[2][kCount];
  };
  auto& ring = static_shared<Ring>();
  const unsigned thread = threadIdx.x;
  float sum = 0;
  cuda::ptx::copy_async<4>(&ring.values[0][thread], in + thread);
  cuda::ptx::commit_copies();
  for (int tile = 0; tile < tiles; ++tile) {
    const bool more = tile + 1 < tiles;
    cuda::ptx::copy_async<4>(&ring.values[(tile + 1) % 2][thread], more ? in + (tile + 1) * kCount + thread : in,
                             more ? 4 : 0);
    cuda::ptx::commit_copies();
    cuda::ptx::wait_copies<kPending>();
    __syncthreads();
    sum += ring.values[tile % 2][kCount - 1 - thread];
    if constexpr (kSecondBarrier) __syncthreads();
  }
  out[thread] = sum;
}

template <int kPending, bool kSecondBarrier>
int wrong_sums(Landing landing) {
  const int tiles = 5;
  const DeviceBuffer<float> in(ramp(kCount * tiles)), out(kCount);
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    launch(one_block(kCount, seed, landing), pipelined_sum<kPending, kSecondBarrier>, in.data(), out.data(), tiles);
    bool right = true;
    for (int i = 0; i < kCount; ++i) {
      float expected = 0;
      for (int tile = 0; tile < tiles; ++tile) expected += static_cast<float>(tile * kCount + kCount - 1 - i);
      right = right && out.values()[static_cast<std::size_t>(i)] == expected;
    }
    wrong += right ? 0 : 1;
  }
  return wrong;
}

TEST(PlantedBugs, WaitForTooFewCopiesShowsByPoison) {
  for (const Landing landing : {Landing::late, Landing::early, Landing::random})
    EXPECT_EQ((wrong_sums<1, true>(landing)), 0);
  if (sanitizers::kRaces) GTEST_SKIP() << "the thread sanitizer would report the races that follow";
  EXPECT_EQ((wrong_sums<2, true>(Landing::late)), 10);
  EXPECT_GT((wrong_sums<2, true>(Landing::random)), 0);
  EXPECT_EQ((wrong_sums<2, true>(Landing::early)), 0);  // which is why copies land late
}

TEST(PlantedBugs, CopyIntoABufferThatIsStillReadShowsWhenCopiesLandEarly) {
  if (sanitizers::kRaces) GTEST_SKIP() << "the thread sanitizer would report it";
  EXPECT_GT((wrong_sums<1, false>(Landing::early)), 0);
}

template <int kBeyond>
void read_beyond(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x + kBeyond];
}
template <int kBeyond>
void write_beyond(float* out) {
  out[threadIdx.x + kBeyond] = 1;
}
void read_beyond_shared(float* out) {
  out[threadIdx.x] = static_shared<float[kCount]>()[threadIdx.x + 65264];
}
template <int kBeyond>
void write_beside_shared() {
  static_shared<float[kCount]>()[threadIdx.x + kBeyond] = 1;
}

TEST(PlantedBugs, AccessesOutOfBoundsAreFaults) {
  if (sanitizers::kAddresses || sanitizers::kRaces) GTEST_SKIP() << "the sanitizer reports them and ends the process";
  const DeviceBuffer<float> in(ramp(kCount)), out(kCount);
  EXPECT_EQ(fault_of(one_block(kCount), read_beyond<0>, in.data(), out.data()), "");
  EXPECT_THAT(fault_of(one_block(kCount), read_beyond<1>, in.data(), out.data()),
              AllOf(HasSubstr("thread (127, 0, 0)"), HasSubstr("an access to global memory outside every buffer")));
  EXPECT_THAT(fault_of(one_block(kCount), write_beyond<1>, out.data()), HasSubstr("outside every buffer"));
  EXPECT_THAT(fault_of(one_block(kCount), read_beyond_shared, out.data()),
              HasSubstr("an access outside shared memory"));
  EXPECT_EQ(fault_of(one_block(kCount), write_beside_shared<0>), "");
  EXPECT_THAT(fault_of(one_block(kCount), write_beside_shared<1>),
              HasSubstr("a write to shared memory beside every object"));
}

TEST(PlantedBugs, WritesIntoThePaddingOfABufferAreFound) {
  if (sanitizers::kAddresses) GTEST_SKIP() << "the sanitizer reports them and ends the process";
  const DeviceBuffer<float> out(kCount - 1);  // ends 4 bytes before its guard page
  launch(one_block(kCount - 1), write_beyond<0>, out.data());
  EXPECT_TRUE(out.intact());
  launch(one_block(kCount), write_beyond<0>, out.data());
  EXPECT_FALSE(out.intact());
}

#if defined(__SANITIZE_ADDRESS__)
TEST(PlantedBugsDeathTest, TheAddressSanitizerFindsAccessesOutOfBounds) {
  const DeviceBuffer<float> in(ramp(kCount - 1)), out(kCount);
  EXPECT_DEATH(launch(one_block(kCount), read_beyond<0>, in.data(), out.data()), "AddressSanitizer");
  EXPECT_DEATH(launch(one_block(kCount), write_beside_shared<1>), "AddressSanitizer|out of bounds");
}
#endif
#if defined(__SANITIZE_THREAD__)
TEST(PlantedBugsDeathTest, TheThreadSanitizerFindsRaces) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child starts anew, with these options
  setenv("TSAN_OPTIONS", "exitcode=66", 1);
  const DeviceBuffer<float> in(ramp(kCount)), out(1);
  EXPECT_EXIT(
      {
        launch(one_block(kCount), tree_sum<true>, in.data(), out.data());
        std::exit(0);
      },
      testing::ExitedWithCode(66), "data race");
}
#endif

// Adds up a row by shuffles; with the bug, only lanes below 16 say that they take part.
template <unsigned kMask>
void warp_sum(const float* in, float* out, int lanes) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= lanes) return;
  float sum = in[lane];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kMask, sum, step);
  out[lane] = sum;
}

TEST(PlantedBugs, WrongMaskIsAFault) {
  const DeviceBuffer<float> in(ramp(32)), out(32);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(fault_of(one_block(32, seed), warp_sum<0xFFFFFFFFu>, in.data(), out.data(), 32), "");
    EXPECT_EQ(out.values()[9], 496.0f);
    EXPECT_THAT(fault_of(one_block(32, seed), warp_sum<0xFFFFu>, in.data(), out.data(), 32),
                HasSubstr("by a thread that its mask 0xffff does not name"));
  }
}

TEST(PlantedBugs, ValueOfALaneThatHasEndedIsPoison) {
  const DeviceBuffer<float> in(ramp(32)), out(32);
  launch(one_block(32), warp_sum<0xFFFFFFFFu>, in.data(), out.data(), 20);
  EXPECT_TRUE(std::isnan(out.values()[9]));
}

}  // namespace
}  // namespace tessera::emulation
