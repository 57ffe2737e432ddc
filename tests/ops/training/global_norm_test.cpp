#include "ops/training/global_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/run_op.h"
#include "tessera/error.h"

namespace tessera::test::global_norm_test {
namespace {

float norm(std::vector<Value> tensors, float scale = 1) {
  tensors.insert(tensors.begin(), Tensor::scalar(scale));
  return run_op({"tessera::GlobalNorm", tensors, {}, 1})[0].tensor().data<float>()[0];
}

TEST(GlobalNorm, IsThatOfAllElementsTogether) {
  EXPECT_EQ(norm({Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({1, 1}, {2})}), 3);
  EXPECT_EQ(norm({Tensor::from<float>({2}, {6, 8})}, 0.5f), 5);
  EXPECT_EQ(norm({Tensor(DType::f32, {0})}), 0);
}

TEST(GlobalNorm, IsFiniteIfAllElementsAre) {
  EXPECT_FLOAT_EQ(norm({Tensor::from<float>({2}, {3e30f, 4e30f})}), 5e30f);
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(norm({Tensor::from<float>({2}, {1, -infinity})})));
  EXPECT_TRUE(std::isnan(norm({Tensor::from<float>({2}, {1, nan})})));
}

TEST(GlobalNorm, NeedsAScalarScale) {
  try {
    run_op({"tessera::GlobalNorm", {Tensor::from<float>({1}, {1}), Tensor::from<float>({1}, {1})}, {}, 1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "'scale' has shape [1], expected a scalar");
  }
}

}  // namespace
}  // namespace tessera::test::global_norm_test
