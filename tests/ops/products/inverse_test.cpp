#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::inverse_test {
namespace {

TEST(Inverse, InvertsEveryMatrix) {
  // The first needs its rows exchanged.
  const Tensor x = Tensor::from<double>({2, 2, 2}, {0, 2, 4, 0, 1, 2, 3, 4});
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::Inverse", {x}}),
                       Tensor::from<double>({2, 2, 2}, {0, 0.25, 0.5, 0, -2, 1, 1.5, -0.5}),
                       Tolerance::epsilons(DType::f64, 4)));
}

TEST(Inverse, RefusesMatricesThatAreNotSquare) {
  expect_error(ErrorKind::invalid_model, "shape [2, 3] does not hold square matrices",
               [] { infer_op("com.microsoft::Inverse", {ir::ValueType::tensor(DType::f32, Shape{2, 3})}); });
}

}  // namespace
}  // namespace tessera::test::inverse_test
