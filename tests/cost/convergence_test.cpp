#include "cost/convergence.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::test::convergence_test {
namespace {

// SSD on 117,266 images: time = time an iteration x iterations to converge.
constexpr double kImages = 117'266;
constexpr const char* kTable = "2048:65, 3072:75-80, 4096:85-90";

TEST(Convergence, SsdWhenTimeGrowsWithTheBatch) {
  const cost::BatchChoice choice = cost::choose_batch(
      cost::parse_convergence(kTable), kImages, [](std::int64_t batch) { return 1e-3 * static_cast<double>(batch); });
  ASSERT_EQ(choice.rows.size(), 3u);
  EXPECT_EQ(choice.rows[choice.best].batch, 2048);
  EXPECT_NEAR(choice.rows[0].iterations, 65 * kImages / 2048, 1e-6);
  EXPECT_NEAR(choice.rows[0].seconds, 65 * kImages * 1e-3, 1e-6);
  EXPECT_DOUBLE_EQ(choice.rows[1].epochs, 77.5);
  EXPECT_DOUBLE_EQ(choice.rows[2].epochs, 87.5);
}

// With a fixed part an iteration (starting operators, exchanging gradients), fewer iterations pay.
TEST(Convergence, SsdWithAFixedPartAnIteration) {
  const auto best = [](double fixed) {
    const cost::BatchChoice choice =
        cost::choose_batch(cost::parse_convergence(kTable), kImages,
                           [&](std::int64_t batch) { return fixed + 1e-3 * static_cast<double>(batch); });
    return choice.rows[choice.best].batch;
  };
  EXPECT_EQ(best(0.5), 2048);
  // 65 (a + 2048) / 2048 = 77.5 (a + 3072) / 3072 at a = 1919 samples' time; 87.5 (a + 4096) / 4096 meets 77.5 (…) /
  // 3072 at 2584.
  EXPECT_EQ(best(1.8), 2048);
  EXPECT_EQ(best(2.0), 3072);
  EXPECT_EQ(best(2.8), 4096);
}

TEST(Convergence, TablesFromFilesHaveLinesAndComments) {
  const auto table = cost::parse_convergence("# batch: epochs\n256: 40\n512: 44 # measured\n\n1024:52");
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[1].batch, 512);
  EXPECT_DOUBLE_EQ(table[2].epochs, 52);
}

TEST(Convergence, FaultsAreNamed) {
  for (const char* text : {"2048", "2048:", ":65", "2048:0", "-1:65", "2048:80-75", "20.5:65", "2048:x"}) {
    SCOPED_TRACE(text);
    expect_error_containing(ErrorKind::invalid_argument, "a convergence table has entries BATCH:EPOCHS",
                            [&] { cost::parse_convergence(text); });
  }
  expect_error_containing(ErrorKind::invalid_argument, "the convergence table is empty",
                          [] { cost::parse_convergence(" # nothing\n"); });
  expect_error_containing(ErrorKind::invalid_argument, "names batch 8 twice",
                          [] { cost::choose_batch({{8, 1}, {8, 2}}, 100, [](std::int64_t) { return 1.0; }); });
}

}  // namespace
}  // namespace tessera::test::convergence_test
