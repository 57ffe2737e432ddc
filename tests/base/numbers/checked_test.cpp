#include "base/numbers/checked.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace tessera::test::checked_test {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(Checked, ReportsOverflow) {
  EXPECT_EQ(base::checked_add(kLargest, -1), kLargest - 1);
  EXPECT_EQ(base::checked_multiply(3, -4), -12);
  expect_error_containing(ErrorKind::over_budget, "size overflow: 9223372036854775807 + 1",
                          [] { base::checked_add(kLargest, 1); });
  expect_error_containing(ErrorKind::over_budget, "size overflow: 9223372036854775807 x 2",
                          [] { base::checked_multiply(kLargest, 2); });
}

TEST(Checked, Rounds) {
  EXPECT_EQ(base::ceil_divide(0, 4), 0);
  EXPECT_EQ(base::ceil_divide(5, 4), 2);
  EXPECT_EQ(base::ceil_divide(kLargest, 2), kLargest / 2 + 1);
  EXPECT_EQ(base::round_up(65, 64), 128);
  EXPECT_EQ(base::round_up(64, 64), 64);
}

}  // namespace
}  // namespace tessera::test::checked_test
