#include "serve/core/requests/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/core/requests/batch.h"

namespace tessera::serve::staging_test {
namespace {

constexpr std::int64_t kRow = 4096;  // elements

// Two inputs of so many rows that hold the number and its negative.
QueuedCall queued(float number, std::int64_t rows = 1, const std::string& kind = "k") {
  const std::vector<float> x(static_cast<std::size_t>(rows * kRow), number);
  const std::vector<std::int64_t> z(static_cast<std::size_t>(rows * kRow), static_cast<std::int64_t>(-number));
  return {std::make_shared<Call>(),
          {{"x", Tensor::from<float>({rows, kRow}, x)}, {"z", Tensor::from<std::int64_t>({rows, kRow}, z)}},
          rows,
          0,
          kind};
}

QueuedCall staged(StagingPool& pool, float number, std::int64_t rows = 1) {
  QueuedCall call = queued(number, rows);
  EXPECT_TRUE(pool.reserve(call));
  write_to_place(call);
  return call;
}

// The first element of each row.
std::vector<float> firsts(const NamedValues& inputs) {
  const Tensor& x = inputs.find("x")->second.tensor();
  const Tensor& z = inputs.find("z")->second.tensor();
  EXPECT_EQ(x.shape(), z.shape());
  std::vector<float> firsts;
  for (std::int64_t row = 0; row < x.shape()[0]; ++row) {
    firsts.push_back(x.values<float>()[static_cast<std::size_t>(row * kRow)]);
    EXPECT_EQ(x.values<float>()[static_cast<std::size_t>((row + 1) * kRow - 1)], firsts.back());
    EXPECT_EQ(z.values<std::int64_t>()[static_cast<std::size_t>(row * kRow)],
              static_cast<std::int64_t>(-firsts.back()));
  }
  return firsts;
}

// The numbers of the requests, row by row, in the order in which they stand.
std::vector<float> numbers(const std::vector<QueuedCall>& batch) {
  std::vector<float> numbers;
  for (const QueuedCall& call : batch) {
    for (const float number : firsts(call.inputs)) numbers.push_back(number);
  }
  return numbers;
}

const void* address(const QueuedCall& call) {
  return call.inputs.find("x")->second.tensor().raw();
}

TEST(Staging, ABatchLiesWhereItsRequestsWereCopied) {
  StagingPool pool(8, 2);
  std::vector<QueuedCall> batch{staged(pool, 1), staged(pool, 2, 3), staged(pool, 3)};
  pool.close(batch);
  std::swap(batch[0], batch[2]);  // as two threads may have come
  const void* const begin = address(batch[2]);
  const NamedValues inputs = staged_inputs(batch);
  EXPECT_THAT(firsts(inputs), testing::ElementsAre(1, 2, 2, 2, 3));
  EXPECT_EQ(numbers(batch), firsts(inputs));
  EXPECT_EQ(inputs.find("x")->second.tensor().raw(), begin);
}

TEST(Staging, WhatLiesElsewhereIsCopiedBehindTheRest) {
  StagingPool pool(8, 2);
  std::vector<QueuedCall> batch{staged(pool, 1)};
  pool.close(batch);  // of which the batch took nothing else
  batch.push_back(queued(9, 2));
  for (const float number : {2, 3, 4}) batch.push_back(staged(pool, number));
  pool.close(batch);
  const void* const begin = address(batch[2]);
  const NamedValues inputs = staged_inputs(batch);
  EXPECT_EQ(inputs.find("x")->second.tensor().raw(), begin);
  std::vector<float> found = firsts(inputs);
  EXPECT_THAT(found, testing::UnorderedElementsAre(1, 2, 3, 4, 9, 9));
  found.resize(3);
  EXPECT_THAT(found, testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(numbers(batch), firsts(inputs));
}

// Rows behind the batch that belong to a request which is still on its way stay what they are.
TEST(Staging, NothingIsWrittenOverARequestThatIsOnItsWay) {
  StagingPool pool(8, 2);
  std::vector<QueuedCall> batch{staged(pool, 1), staged(pool, 2), queued(9)};
  const QueuedCall late = staged(pool, 3);
  pool.close(batch);
  EXPECT_TRUE(staged_inputs(batch).empty());
  Gatherer gatherer;
  const NamedValues inputs = gatherer.gather(batch);
  EXPECT_THAT(firsts(inputs), testing::UnorderedElementsAre(1, 2, 9));
  EXPECT_EQ(numbers(batch), firsts(inputs));
  EXPECT_THAT(firsts(late.inputs), testing::ElementsAre(3));
}

TEST(Staging, RowsWithAHoleAreCopied) {
  StagingPool pool(3, 2);
  std::vector<QueuedCall> batch{staged(pool, 1)};
  staged(pool, 2);  // cancelled
  batch.push_back(staged(pool, 3));
  pool.close(batch);
  Gatherer gatherer;
  const NamedValues inputs = gatherer.gather(batch);
  EXPECT_THAT(firsts(inputs), testing::UnorderedElementsAre(1, 3));
  EXPECT_EQ(numbers(batch), firsts(inputs));
}

TEST(Staging, BuffersAreUsedAgainOnceNobodyReadsThem) {
  StagingPool pool(2, 2);
  std::vector<QueuedCall> batch{staged(pool, 1), staged(pool, 2)};
  pool.close(batch);
  const void* const first = address(batch[0]);
  std::vector<QueuedCall> second{staged(pool, 3), staged(pool, 4)};
  EXPECT_NE(address(second[0]), first);
  QueuedCall third = queued(5);
  EXPECT_FALSE(pool.reserve(third)) << "both buffers are in use";
  EXPECT_THAT(numbers(batch), testing::ElementsAre(1, 2));
  batch.clear();
  EXPECT_EQ(address(staged(pool, 6)), first);
  EXPECT_TRUE(pool.keeps_memory());
  pool.release();
  EXPECT_FALSE(pool.keeps_memory());
  EXPECT_THAT(numbers(second), testing::ElementsAre(3, 4)) << "whoever reads a buffer keeps it";
}

TEST(Staging, LeavesAloneWhatDoesNotBelongTogether) {
  StagingPool pool(4, 2);
  const QueuedCall one = staged(pool, 1);
  QueuedCall other_kind = queued(2, 1, "other");
  EXPECT_FALSE(pool.reserve(other_kind));
  QueuedCall whole = queued(3, 4);
  EXPECT_FALSE(pool.reserve(whole)) << "it is a batch of its own";
  QueuedCall small{std::make_shared<Call>(), {{"x", Tensor(DType::f32, {1, 16})}}, 1, 0, "k"};
  EXPECT_FALSE(pool.reserve(small));
  QueuedCall odd{std::make_shared<Call>(), {{"x", Tensor(DType::f32, {1, 5001})}}, 1, 0, "k"};
  EXPECT_FALSE(pool.reserve(odd)) << "its second row would not be aligned";
  QueuedCall text{std::make_shared<Call>(), {{"x", Tensor(DType::string, {1, 4096})}}, 1, 0, "k"};
  EXPECT_FALSE(pool.reserve(text));
  std::vector<QueuedCall> batch{one};
  pool.close(batch);
  EXPECT_TRUE(pool.reserve(other_kind)) << "once the batch before is closed";
}

TEST(Staging, ABatchOfNothingStagedIsLeftToTheGatherer) {
  std::vector<QueuedCall> batch{queued(1), queued(2)};
  EXPECT_TRUE(staged_inputs(batch).empty());
  EXPECT_THAT(numbers(batch), testing::ElementsAre(1, 2));
}

}  // namespace
}  // namespace tessera::serve::staging_test
