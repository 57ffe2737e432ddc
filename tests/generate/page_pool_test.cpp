#include "generate/page_pool.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::generate::page_pool_test {
namespace {

TEST(PagePool, GivesPagesAsSequencesGrow) {
  PagePool pool(3, 2, 3);
  const std::int64_t a = pool.open(), b = pool.open();
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(pool.append(a), i);
  EXPECT_EQ(pool.pages(a), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(pool.append(b), 0);
  EXPECT_EQ(pool.pages(b), std::vector<std::int64_t>{2});
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_EQ(pool.append(a), 3);
  test::expect_error_containing(ErrorKind::over_budget, "all pages of the cache", [&] { pool.append(a); });
  EXPECT_EQ(pool.length(a), 4);
  pool.close(b);
  EXPECT_EQ(pool.append(a), 4);
  EXPECT_EQ(pool.pages(a), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(PagePool, TakesPositionsBack) {
  PagePool pool(2, 2, 2);
  const std::int64_t a = pool.open();
  for (int i = 0; i < 4; ++i) pool.append(a);
  test::expect_error_containing(ErrorKind::invalid_argument, "has 4 tokens, which is all that it may have",
                                [&] { pool.append(a); });
  pool.truncate(a, 3);
  EXPECT_EQ(pool.free_pages(), 0);
  pool.truncate(a, 2);
  EXPECT_EQ(pool.free_pages(), 1);
  pool.truncate(a, 0);
  EXPECT_EQ(pool.free_pages(), 2);
  EXPECT_EQ(pool.append(a), 0);
}

TEST(PagePool, KnowsOpenSequencesOnly) {
  PagePool pool(1, 2, 1);
  const std::int64_t a = pool.open();
  pool.close(a);
  test::expect_error_containing(ErrorKind::invalid_argument, "sequence 0 is not open", [&] { pool.append(a); });
  test::expect_error_containing(ErrorKind::invalid_argument, "sequence 0 is not open", [&] { pool.close(a); });
}

TEST(PagePool, IdleSequencesLendTheirPages) {
  PagePool pool(4, 2, 4);
  const std::int64_t a = pool.open(), b = pool.open(), c = pool.open();
  for (int i = 0; i < 4; ++i) pool.append(a);
  for (int i = 0; i < 3; ++i) pool.append(b);
  test::expect_error_containing(ErrorKind::over_budget, "all pages of the cache", [&] { pool.append(c); });
  pool.set_idle(b, true);
  pool.set_idle(a, true);
  EXPECT_EQ(pool.append(c), 0);  // b has been idle longer
  EXPECT_EQ(pool.length(b), 2);
  EXPECT_EQ(pool.length(a), 4);
  pool.set_idle(b, false);  // a alone lends now
  for (int i = 1; i < 6; ++i) EXPECT_EQ(pool.append(c), i);
  EXPECT_EQ(pool.length(a), 0);
  EXPECT_EQ(pool.length(b), 2);
  test::expect_error_containing(ErrorKind::over_budget, "all pages of the cache", [&] { pool.append(c); });
}

}  // namespace
}  // namespace tessera::generate::page_pool_test
