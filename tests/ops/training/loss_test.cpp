#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::loss_test {
namespace {

// The examples in ONNX's description of NegativeLogLikelihoodLoss.
const Tensor kInput = Tensor::from<float>({2, 3, 2}, {1, 2, 2, 2, 3, 2, 0, 1, 2, 2, 1, 2});
const Tensor kTarget = Tensor::from<std::int64_t>({2, 2}, {2, 1, 0, 2});
const Tensor kWeight = Tensor::from<float>({3}, {0.2f, 0.3f, 0.1f});

ir::Attributes reduction(const std::string& how) {
  return {{"reduction", how}};
}

TEST(NegativeLogLikelihoodLoss, Reductions) {
  EXPECT_TRUE(close_to(run_op_tensor({"NegativeLogLikelihoodLoss", {kInput, kTarget}, reduction("none")}),
                       Tensor::from<float>({2, 2}, {-3, -2, 0, -2})));
  EXPECT_TRUE(close_to(run_op_tensor({"NegativeLogLikelihoodLoss", {kInput, kTarget, kWeight}, reduction("sum")}),
                       Tensor::scalar(-1.1f), Tolerance::epsilons(DType::f32, 2)));
  EXPECT_TRUE(close_to(run_op_tensor({"NegativeLogLikelihoodLoss", {kInput, kTarget, kWeight}}),
                       Tensor::scalar(-1.5714285f), Tolerance::epsilons(DType::f32, 2)));
}

TEST(NegativeLogLikelihoodLoss, IgnoresOneLabelAndRefusesOthersOutside) {
  const Tensor target = Tensor::from<std::int64_t>({2, 2}, {-7, 1, 0, 2});
  EXPECT_TRUE(
      close_to(run_op_tensor({"NegativeLogLikelihoodLoss", {kInput, target}, {{"ignore_index", std::int64_t{-7}}}}),
               Tensor::scalar(-4.0f / 3), Tolerance::epsilons(DType::f32, 1)));
  expect_error(ErrorKind::failed, "label -7 is outside [0, 3)",
               [&] { run_op({"NegativeLogLikelihoodLoss", {kInput, target}}); });
  expect_error(ErrorKind::invalid_model, "labels of shape [2] do not fit scores of shape [2, 3, 2]",
               [&] { run_op({"NegativeLogLikelihoodLoss", {kInput, Tensor::from<std::int64_t>({2}, {0, 0})}}); });
}

TEST(SoftmaxCrossEntropyLoss, GivesLogProbabilities) {
  const Tensor scores = Tensor::from<float>({1, 2}, {3, 3}), label = Tensor::from<std::int32_t>({1}, {1});
  const std::vector<Value> outputs = run_op({"SoftmaxCrossEntropyLoss", {scores, label}, {}, 2});
  EXPECT_TRUE(close_to(outputs[0].tensor(), Tensor::scalar(0.6931472f), Tolerance::epsilons(DType::f32, 1)));
  EXPECT_TRUE(close_to(outputs[1].tensor(), Tensor::from<float>({1, 2}, {-0.6931472f, -0.6931472f}),
                       Tolerance::epsilons(DType::f32, 1)));
}

}  // namespace
}  // namespace tessera::test::loss_test
