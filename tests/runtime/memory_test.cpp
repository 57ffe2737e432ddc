// Accounts and pools of blocks.
#include "runtime/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/weight_store.h"
#include "support/expect_error.h"

namespace tessera::runtime {
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
  test::expect_error(ErrorKind::over_budget, "2.0 MiB for results do not fit: 1.0 MiB of the limit of 2.0 MiB are in use",
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
  const auto pack = [&] {
    ++packed;
    return backends::PackedWeights{std::make_shared<std::byte[]>(16), 16};
  };
  auto first = store.find_or_pack(weights, "a", pack);
  EXPECT_EQ(store.find_or_pack(weights, "a", pack), first);
  EXPECT_EQ(packed, 1);
  EXPECT_NE(store.find_or_pack(weights, "b", pack), first);
  EXPECT_EQ(store.size(), 1u);  // nobody kept b
  EXPECT_EQ(account->used(Purpose::packed_weights), 16);
  first.reset();
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(account->used(Purpose::packed_weights), 0);
  store.find_or_pack(weights, "a", pack);
  EXPECT_EQ(packed, 3);
}

}  // namespace
}  // namespace tessera::runtime
