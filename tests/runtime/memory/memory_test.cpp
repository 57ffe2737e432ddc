// Accounts and pools of blocks.
#include "runtime/memory/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/memory/packed_memory.h"
#include "runtime/memory/weight_store.h"
#include "support/expect_error.h"

namespace tessera::runtime::memory_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class BlockPoolTest : public testing::Test {
 protected:
  std::shared_ptr<std::byte> take(BlockPool& pool, std::int64_t bytes, const std::byte* preferred = nullptr) {
    std::shared_ptr<std::byte> block = pool.take(bytes, account, Purpose::arena, preferred);
    std::memset(block.get(), 1, static_cast<std::size_t>(bytes));
    return block;
  }
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
};

TEST_F(BlockPoolTest, GivesTheSameBlockAgain) {
  BlockPool pool(2, 0);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{5000}, kMiB + 1, 5 * kMiB}) {
    const std::byte* first = take(pool, bytes).get();
    EXPECT_EQ(take(pool, bytes).get(), first);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    pool.trim();
  }
}

TEST_F(BlockPoolTest, PrefersTheBlockAskedFor) {
  BlockPool pool(1e18, 0);
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(take(pool, 1000));
  const std::byte* third = blocks[2].get();
  blocks.clear();
  EXPECT_EQ(take(pool, 1000, third).get(), third);
  EXPECT_EQ(take(pool, 500, third).get(), third);
}

TEST_F(BlockPoolTest, HoldsNoMoreThanWasInUseAtOnce) {
  BlockPool pool(1e18, 0);
  for (std::int64_t bytes = 4 * kMiB; bytes < 40 * kMiB; bytes += kMiB / 2) take(pool, bytes);
  EXPECT_LE(pool.idle_bytes(), 40 * kMiB);
  const std::int64_t before = pool.idle_bytes();
  for (std::int64_t bytes = 40 * kMiB; bytes > 1000; bytes /= 3) take(pool, bytes);  // the large one serves the small
  EXPECT_LE(pool.idle_bytes(), std::max(before, 40 * kMiB));
}

TEST_F(BlockPoolTest, ASmallRequestLeavesALargeBlockToOthers) {
  BlockPool pool(2, kMiB);
  const std::byte* large = take(pool, 64 * kMiB).get();
  EXPECT_NE(take(pool, 100).get(), large);
}

TEST_F(BlockPoolTest, ForgetsAPeakAfterTwoPeriods) {
  BlockPool pool(2, 0);
  take(pool, 64 * kMiB);
  EXPECT_EQ(pool.end_period(), 0);
  EXPECT_EQ(pool.idle_bytes(), 64 * kMiB);
  EXPECT_EQ(pool.end_period(), 64 * kMiB);
  EXPECT_EQ(pool.idle_bytes(), 0);
}

TEST_F(BlockPoolTest, KeepsABusyPeriodsBlocks) {
  BlockPool pool(2, 0);
  for (int period = 0; period < 5; ++period) {
    take(pool, 8 * kMiB);
    EXPECT_EQ(pool.end_period(), 0);
  }
}

TEST_F(BlockPoolTest, ChargesWhoeverHoldsTheBlock) {
  BlockPool pool(2, 0);
  const auto other = std::make_shared<MemoryAccount>(2 * kMiB);
  {
    const std::shared_ptr<std::byte> block = take(pool, kMiB);
    EXPECT_EQ(account->used(Purpose::arena), kMiB);
    EXPECT_EQ(other->total(), 0);
  }
  EXPECT_EQ(account->total(), 0);
  const std::shared_ptr<std::byte> block = pool.take(kMiB, other, Purpose::results);
  EXPECT_EQ(other->used(Purpose::results), kMiB);
  test::expect_error(ErrorKind::over_budget,
                     "2.0 MiB for results do not fit: 1.0 MiB of the limit of 2.0 MiB are in use",
                     [&] { pool.take(2 * kMiB, other, Purpose::results); });
  EXPECT_EQ(other->total(), kMiB);
}

TEST_F(BlockPoolTest, BlocksMayOutliveThePool) {
  std::shared_ptr<std::byte> block;
  {
    BlockPool pool(2, 0);
    block = take(pool, 1000);
  }
  EXPECT_EQ(account->total(), 1024);
  block.reset();
  EXPECT_EQ(account->total(), 0);
}

TEST(WeightStore, KeepsAPackingWhileItIsUsed) {
  const auto account = std::make_shared<MemoryAccount>();
  SharedWeightStore store(account);
  const Tensor weights(DType::f32, {4});
  int packed = 0;
  const auto pack = [&](const Tensor&, std::byte* to) {
    ++packed;
    std::fill_n(to, 16, std::byte{7});
  };
  auto first = store.find_or_pack(weights, "a", 16, pack);
  EXPECT_EQ(first->data[15], std::byte{7});
  EXPECT_EQ(store.find_or_pack(weights, "a", 16, pack), first);
  EXPECT_EQ(packed, 1);
  EXPECT_NE(store.find_or_pack(weights, "b", 16, pack), first);
  EXPECT_EQ(store.size(), 1u);  // nobody kept b
  EXPECT_EQ(account->used(Purpose::packed_weights), 16);
  first.reset();
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(account->used(Purpose::packed_weights), 0);
  store.find_or_pack(weights, "a", 16, pack);
  EXPECT_EQ(packed, 3);
}

TEST(WeightStore, MakesDifferentPackingsAtOnceAndEachOnlyOnce) {
  const auto account = std::make_shared<MemoryAccount>();
  SharedWeightStore store(account);
  const Tensor weights(DType::f32, {4});
  std::atomic<int> made{0};
  std::barrier both(2);
  std::array<std::shared_ptr<const backends::PackedWeights>, 4> packings;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < packings.size(); ++i) {
    threads.emplace_back([&, i] {
      packings[i] = store.find_or_pack(weights, i % 2 == 0 ? "even" : "odd", 64, [&](const Tensor&, std::byte* to) {
        both.arrive_and_wait();  // would never end if one had to wait for the other
        std::fill_n(to, 64, static_cast<std::byte>(i % 2));
        ++made;
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(packings[0], packings[2]);
  EXPECT_EQ(packings[1], packings[3]);
  EXPECT_EQ(packings[1]->data[63], std::byte{1});
  EXPECT_EQ(account->used(Purpose::packed_weights), 128);
}

TEST(WeightStore, DeferredWeightsAreThereWhileTheyArePacked) {
  SharedWeightStore store(std::make_shared<MemoryAccount>());
  int fills = 0;
  const Tensor weights = Tensor::deferred(
      DType::f32, {4}, [&](void* to) { std::fill_n(static_cast<float*>(to), 4, static_cast<float>(++fills)); });
  const auto pack = [](const Tensor& contents, std::byte* to) { std::memcpy(to, contents.raw(), 16); };
  const auto first = store.find_or_pack(weights, "a", 16, pack),
             view = store.find_or_pack(weights.reshaped({2, 2}), "a", 16, pack);
  EXPECT_EQ(store.find_or_pack(weights, "a", 16, pack), first);
  EXPECT_NE(view, first);
  EXPECT_EQ(fills, 2);
  EXPECT_TRUE(weights.is_deferred());
}

TEST(WeightStore, TriesAgainAfterAFailure) {
  const auto account = std::make_shared<MemoryAccount>(1000);
  SharedWeightStore store(account);
  const Tensor weights(DType::f32, {4});
  EXPECT_THROW(store.find_or_pack(weights, "a", 2000, [](const Tensor&, std::byte*) {}), Error);
  EXPECT_THROW(store.find_or_pack(weights, "a", 64, [](const Tensor&, std::byte*) { fail(ErrorKind::failed, "no"); }),
               Error);
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(account->total(), 0);
  EXPECT_NE(store.find_or_pack(weights, "a", 64, [](const Tensor&, std::byte* to) { *to = std::byte{}; }), nullptr);
}

TEST(PackedMemory, PutsBlocksSideBySideAndKeepsThemApart) {
  PackedMemory memory;
  std::vector<std::pair<std::shared_ptr<std::byte[]>, std::int64_t>> blocks;
  for (const std::int64_t bytes : {1, 64, 100'000, 300'000, 5'000'000, 20'000'000, 3'000'000}) {
    blocks.emplace_back(memory.allocate(bytes), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().first.get()) % 64, 0u);
    std::fill_n(blocks.back().first.get(), bytes, static_cast<std::byte>(blocks.size()));
  }
  EXPECT_EQ(blocks[1].first.get(), blocks[0].first.get() + 64);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& [data, bytes] = blocks[i];
    EXPECT_EQ(std::count(data.get(), data.get() + bytes, static_cast<std::byte>(i + 1)), bytes);
  }
}

}  // namespace
}  // namespace tessera::runtime::memory_test
