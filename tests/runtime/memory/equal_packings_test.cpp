#include "runtime/memory/equal_packings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/memory/weight_store.h"

namespace tessera::runtime {
namespace {

constexpr std::int64_t kBytes = EqualPackings::kLeastBytes;

std::shared_ptr<const std::byte[]> packing(std::byte last, std::int64_t bytes = kBytes) {
  auto data = std::make_shared<std::byte[]>(static_cast<std::size_t>(bytes), std::byte{1});
  data[bytes - 1] = last;
  return data;
}

TEST(EqualPackings, SharesWhatIsEqualAndInUse) {
  EqualPackings packings;
  auto first = packings.share("a", kBytes, packing(std::byte{2}));
  EXPECT_EQ(packings.share("a", kBytes, packing(std::byte{2})), first);
  EXPECT_NE(packings.share("a", kBytes, packing(std::byte{3})), first);  // other contents
  EXPECT_NE(packings.share("b", kBytes, packing(std::byte{2})), first);  // another layout
  EXPECT_EQ(packings.size(), 1u);
  first.reset();
  EXPECT_EQ(packings.size(), 0u);
  const auto again = packings.share("a", kBytes, packing(std::byte{2}));
  EXPECT_EQ(again[kBytes - 1], std::byte{2});
}

TEST(EqualPackings, ReleasesTheMemoryWithTheLastUser) {
  EqualPackings packings;
  auto made = packing(std::byte{2});
  const std::weak_ptr<const std::byte[]> memory = made;
  auto first = packings.share("a", kBytes, std::move(made)),
       second = packings.share("a", kBytes, packing(std::byte{2}));
  first.reset();
  EXPECT_FALSE(memory.expired());
  second.reset();
  EXPECT_TRUE(memory.expired());
}

TEST(EqualPackings, LeavesSmallOnesAlone) {
  EqualPackings packings;
  const auto first = packings.share("a", kBytes - 1, packing(std::byte{2}, kBytes - 1));
  EXPECT_NE(packings.share("a", kBytes - 1, packing(std::byte{2}, kBytes - 1)), first);
  EXPECT_EQ(packings.size(), 0u);
}

TEST(EqualPackings, OutlivesItsRegistry) {
  auto packings = std::make_unique<EqualPackings>();
  const auto first = packings->share("a", kBytes, packing(std::byte{2}));
  packings.reset();
  EXPECT_EQ(first[kBytes - 1], std::byte{2});
}

TEST(EqualPackings, StandsManyThreads) {
  EqualPackings packings;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto last = static_cast<std::byte>(i % 3);
        const auto shared = packings.share("a", kBytes, packing(last));
        EXPECT_EQ(shared[kBytes - 1], last);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(packings.size(), 0u);
}

TEST(WeightStore, SharesPackingsWithOtherStores) {
  const auto pack = [](const Tensor&, std::byte* to) { std::fill_n(to, kBytes, std::byte{9}); };
  const auto account = std::make_shared<MemoryAccount>(), other_account = std::make_shared<MemoryAccount>();
  SharedWeightStore store(account), other(other_account);
  const Tensor weights(DType::f32, {4}), other_weights(DType::f32, {4});
  const auto first = store.find_or_pack(weights, "shared by stores", kBytes, pack),
             second = other.find_or_pack(other_weights, "shared by stores", kBytes, pack);
  EXPECT_EQ(first->data, second->data);
  EXPECT_EQ(account->total(), other_account->total());  // each as if it were alone
}

}  // namespace
}  // namespace tessera::runtime
