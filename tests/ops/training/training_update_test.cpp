#include <gtest/gtest.h>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::training_update_test {
namespace {

Tensor one(float value) {
  return Tensor::from<float>({1}, {value});
}
const Tolerance kTolerance = Tolerance::epsilons(DType::f32, 4);

TEST(Adagrad, ScalesByTheAccumulatedSquare) {
  const OpCall call{"ai.onnx.preview.training::Adagrad",
                    {Tensor::scalar(0.5f), Tensor::scalar<std::int64_t>(0), one(1), one(3), one(16)},
                    {{"epsilon", 0.0f}},
                    2};
  const std::vector<Value> y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), one(0.7f), kTolerance));
  EXPECT_TRUE(close_to(y[1].tensor(), one(25)));
}

TEST(Adam, FirstStepWithoutCorrection) {
  const OpCall call{"ai.onnx.preview.training::Adam",
                    {Tensor::scalar(1.0f), Tensor::scalar<std::int64_t>(0), one(1), one(2), one(0), one(0)},
                    {{"alpha", 0.5f}, {"beta", 0.75f}, {"epsilon", 0.0f}},
                    3};
  const std::vector<Value> y = run_op(call);
  EXPECT_TRUE(close_to(y[0].tensor(), one(0), kTolerance));  // 1 - 1 * 1 / sqrt(1)
  EXPECT_TRUE(close_to(y[1].tensor(), one(1)));
  EXPECT_TRUE(close_to(y[2].tensor(), one(1)));
}

TEST(Momentum, BothModesOverTwoTensors) {
  const std::vector<Value> inputs{
      Tensor::scalar(0.5f), Tensor::scalar<std::int64_t>(1), one(1), one(2), one(3), one(4), one(5), one(6)};
  ir::Attributes attributes{
      {"alpha", 0.5f}, {"beta", 2.0f}, {"norm_coefficient", 0.0f}, {"mode", std::string("standard")}};
  std::vector<Value> y = run_op({"ai.onnx.preview.training::Momentum", inputs, attributes, 4});
  EXPECT_TRUE(close_to(y[0].tensor(), one(1 - 0.5f * 8.5f)));
  EXPECT_TRUE(close_to(y[3].tensor(), one(11)));
  attributes["mode"] = std::string("nesterov");
  y = run_op({"ai.onnx.preview.training::Momentum", inputs, attributes, 4});
  EXPECT_TRUE(close_to(y[1].tensor(), one(2 - 0.5f * (4 + 5.5f))));
}

TEST(TrainingUpdate, RefusesIncompleteGroups) {
  try {
    run_op({"ai.onnx.preview.training::Adam",
            {Tensor::scalar(1.0f), Tensor::scalar<std::int64_t>(0), one(1), one(2)},
            {},
            2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "2 tensors are given, expected 4 for each one to optimise");
  }
}

}  // namespace
}  // namespace tessera::test::training_update_test
