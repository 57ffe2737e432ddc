#include "serve/core/requests/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::serve::batch_test {
namespace {

using testing::ElementsAre;

QueuedCall queued(const std::vector<float>& x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / 2;
  return {std::make_shared<Call>(), {{"x", Tensor::from<float>({rows, 2}, x)}}, rows, 0, "k"};
}

Tensor gathered(Gatherer& gatherer, std::vector<QueuedCall> batch) {
  return gatherer.gather(batch).find("x")->second.tensor();
}

TEST(Gatherer, PutsRowsOneBehindTheOther) {
  Gatherer gatherer;
  const Tensor x = gathered(gatherer, {queued({1, 2}), queued({3, 4, 5, 6})});
  EXPECT_THAT(x.shape(), ElementsAre(3, 2));
  EXPECT_THAT(x.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Gatherer, LeavesWhatIsAloneWhereItIs) {
  Gatherer gatherer;
  const QueuedCall alone = queued({1, 2});
  EXPECT_EQ(gathered(gatherer, {alone}).raw(), alone.inputs.find("x")->second.tensor().raw());
  EXPECT_FALSE(gatherer.keeps_memory());
}

TEST(Gatherer, WritesToTheSameMemoryOnceNobodyHoldsIt) {
  Gatherer gatherer;
  const void* first = gathered(gatherer, {queued({1, 2}), queued({3, 4, 5, 6})}).raw();
  const Tensor held = gathered(gatherer, {queued({7, 8}), queued({9, 10})});
  EXPECT_EQ(held.raw(), first);
  EXPECT_THAT(held.values<float>(), ElementsAre(7, 8, 9, 10));
  const Tensor other = gathered(gatherer, {queued({11, 12}), queued({13, 14})});
  EXPECT_NE(other.raw(), held.raw());
  EXPECT_THAT(held.values<float>(), ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(other.values<float>(), ElementsAre(11, 12, 13, 14));
}

// An answer may be a view of the batch's inputs, as of a model that passes an input on.
TEST(Gatherer, RowsOfABatchHoldItsMemory) {
  Gatherer gatherer;
  Tensor row;
  {
    const Tensor x = gathered(gatherer, {queued({1, 2}), queued({3, 4})});
    row = rows_of("x", x, 2, 1, 1);
  }
  const Tensor next = gathered(gatherer, {queued({5, 6}), queued({7, 8})});
  EXPECT_THAT(row.values<float>(), ElementsAre(3, 4));
  EXPECT_THAT(next.values<float>(), ElementsAre(5, 6, 7, 8));
}

TEST(Gatherer, GrowsWithBatchesAndLetsGo) {
  Gatherer gatherer;
  gathered(gatherer, {queued({1, 2}), queued({3, 4})});
  EXPECT_THAT(gathered(gatherer, {queued({1, 2, 3, 4}), queued({5, 6, 7, 8})}).values<float>(),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(gatherer.keeps_memory());
  gatherer.release();
  EXPECT_FALSE(gatherer.keeps_memory());
}

TEST(Gatherer, StringsHaveMemoryOfTheirOwn) {
  Gatherer gatherer;
  std::vector<QueuedCall> batch;
  for (const char* text : {"a", "b"}) {
    const std::vector<std::string> values{text};
    batch.push_back({std::make_shared<Call>(), {{"x", Tensor::from<std::string>({1}, values)}}, 1, 0, "k"});
  }
  const Tensor first = gathered(gatherer, batch), second = gathered(gatherer, batch);
  EXPECT_NE(first.raw(), second.raw());
  EXPECT_THAT(second.values<std::string>(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace tessera::serve::batch_test
