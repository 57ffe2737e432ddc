#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::cumulative_test {
namespace {

const Tensor kX = Tensor::from<std::int32_t>({1, 3}, {1, 2, 3});
const Tensor kAxis = Tensor::scalar(std::int32_t{1});
const ir::Attributes kExclusive{{"exclusive", std::int64_t{1}}}, kReverse{{"reverse", std::int64_t{1}}};

Tensor row(std::initializer_list<std::int32_t> values) {
  return Tensor::from<std::int32_t>({1, 3}, values);
}

// The example in ONNX's description of CumSum and CumProd.
TEST(Cumulative, SumsAndProducts) {
  EXPECT_TRUE(identical(run_op_tensor({"CumSum", {kX, kAxis}}), row({1, 3, 6})));
  EXPECT_TRUE(identical(run_op_tensor({"CumSum", {kX, kAxis}, kExclusive}), row({0, 1, 3})));
  EXPECT_TRUE(identical(run_op_tensor({"CumSum", {kX, kAxis}, kReverse}), row({6, 5, 3})));
  EXPECT_TRUE(identical(run_op_tensor({"CumProd", {kX, kAxis}, kExclusive}), row({1, 1, 2})));
  EXPECT_TRUE(identical(run_op_tensor({"CumProd", {kX, kAxis}, kReverse}), row({6, 6, 3})));
}

TEST(Cumulative, RefusesBadAxes) {
  expect_error(ErrorKind::invalid_model, "axis 2 is outside [-2, 2) of a tensor of rank 2",
               [] { run_op({"CumSum", {kX, Tensor::scalar(std::int64_t{2})}}); });
}

}  // namespace
}  // namespace tessera::test::cumulative_test
