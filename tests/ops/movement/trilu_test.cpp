#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::trilu_test {
namespace {

const Tensor kX = Tensor::from<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Trilu, KeepsATriangle) {
  EXPECT_TRUE(identical(run_op_tensor({"Trilu", {kX}}), Tensor::from<std::int32_t>({2, 3}, {1, 2, 3, 0, 5, 6})));
  EXPECT_TRUE(identical(run_op_tensor({"Trilu", {kX, Tensor::scalar<std::int64_t>(-1)}, {{"upper", std::int64_t{0}}}}),
                        Tensor::from<std::int32_t>({2, 3}, {0, 0, 0, 4, 0, 0})));
}

TEST(Trilu, ExtremeDiagonals) {
  EXPECT_TRUE(identical(run_op_tensor({"Trilu", {kX, Tensor::scalar<std::int64_t>(INT64_MIN)}}), kX));
  EXPECT_TRUE(identical(run_op_tensor({"Trilu", {kX, Tensor::scalar<std::int64_t>(INT64_MAX)}}),
                        Tensor::from<std::int32_t>({2, 3}, {0, 0, 0, 0, 0, 0})));
}

TEST(Trilu, RefusesVectors) {
  expect_error(ErrorKind::invalid_model, "input has rank 1, expected at least 2",
               [] { run_op({"Trilu", {kX.reshaped({6})}}); });
}

}  // namespace
}  // namespace tessera::test::trilu_test
