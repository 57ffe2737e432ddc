#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::random_test {
namespace {

const ir::Attributes kThousand{{"shape", std::vector<std::int64_t>{1000}}, {"seed", 3.0f}};

TEST(Random, FollowsItsDistributionAndRepeats) {
  const Tensor normal = run_op_tensor({"RandomNormal", {}, kThousand});
  EXPECT_TRUE(identical(normal, run_op_tensor({"RandomNormal", {}, kThousand})));
  double mean = 0, square = 0;
  for (const float value : normal.values<float>()) mean += value / 1000, square += value * value / 1000;
  EXPECT_NEAR(mean, 0, 0.1);
  EXPECT_NEAR(square, 1, 0.15);
  const Tensor uniform = run_op_tensor({"RandomUniform", {}, kThousand});
  for (const float value : uniform.values<float>()) {
    EXPECT_TRUE(value >= 0 && value <= 1);
  }
}

TEST(Random, LikeTakesShapeAndType) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f16, ir::Dims{ir::Dim::symbol("n")});
  EXPECT_EQ(infer_op("RandomNormalLike", {x})[0], x);
  EXPECT_EQ(ir::to_string(infer_op("RandomUniformLike", {x}, {{"dtype", std::int64_t{11}}})[0]), "f64[n]");
  expect_error(ErrorKind::invalid_model, "cannot give random numbers of type i32",
               [] { run_op({"RandomNormalLike", {Tensor::scalar(std::int32_t{1})}}); });
  expect_error(ErrorKind::invalid_model, "dimension -1 in the requested shape",
               [] { run_op({"RandomNormal", {}, {{"shape", std::vector<std::int64_t>{-1}}}}); });
}

TEST(Bernoulli, DrawsByProbability) {
  const Tensor p = Tensor::from<float>({4}, {0, 1, 0, 1});
  EXPECT_TRUE(identical(run_op_tensor({"Bernoulli", {p}, {{"dtype", std::int64_t{9}}}}),
                        Tensor::from<bool>({4}, {false, true, false, true})));
}

TEST(Multinomial, DrawsByLogProbability) {
  const Tensor scores = Tensor::from<float>({2, 3}, {-INFINITY, 0, -INFINITY, 0, -INFINITY, -INFINITY});
  EXPECT_TRUE(identical(run_op_tensor({"Multinomial", {scores}, {{"sample_size", std::int64_t{2}}}}),
                        Tensor::from<std::int32_t>({2, 2}, {1, 1, 0, 0})));
}

}  // namespace
}  // namespace tessera::test::random_test
