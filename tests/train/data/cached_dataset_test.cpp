#include "train/data/cached_dataset.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/data/sample_support.h"

namespace tessera::train::cached_dataset_test {
namespace {

using test::CountingDataset;
using test::read_sample;

constexpr std::int64_t kSampleBytes = 4 * 4 + 8;

TEST(MemoryCache, ReadsEachSampleOnceWithinItsBound) {
  const auto data = std::make_shared<CountingDataset>(10, Shape{4});
  const auto cached = cache_in_memory(data, 6 * kSampleBytes);
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(read_sample(*cached, i)[0].data<float>()[3], i * 10.0f);
  }
  EXPECT_EQ(data->reads(), 10 + 2 * 4);  // four samples did not fit
  EXPECT_EQ(cached->memory_bytes(), 6 * kSampleBytes);
}

TEST(DiskCache, ReadsEachSampleOnceAndLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  const auto data = std::make_shared<CountingDataset>(10, Shape{4});
  {
    const auto cached = cache_on_disk(data, folder.path());
    for (int round = 0; round < 3; ++round) {
      for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(read_sample(*cached, i)[1].data<std::int64_t>()[0], i);
    }
  }
  EXPECT_EQ(data->reads(), 10);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DiskCache, ASampleThatCannotBeReadStaysAFault) {
  const test::TemporaryFolder folder;
  const auto cached =
      cache_on_disk(std::make_shared<CountingDataset>(3, Shape{4}, std::set<std::int64_t>{1}), folder.path());
  for (int round = 0; round < 2; ++round) EXPECT_THROW(read_sample(*cached, 1), Error);
  test::expect_error_containing(ErrorKind::io, "a cache of the data cannot be made in", [&] {
    cache_on_disk(std::make_shared<CountingDataset>(3, Shape{4}), folder / "missing");
  });
}

}  // namespace
}  // namespace tessera::train::cached_dataset_test
