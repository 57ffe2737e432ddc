#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::activation_test {
namespace {

// Values from the formulas in ONNX's operator descriptions, computed in double.
TEST(Activation, FunctionsWithDefaultAttributes) {
  struct Case {
    const char* op;
    float x, y;
  };
  for (const Case& c : {Case{"Celu", -1, -0.6321206f},
                        {"Elu", -1, -0.6321206f},
                        {"Gelu", 1, 0.8413447f},
                        {"HardSigmoid", 1, 0.7f},
                        {"HardSwish", 1, 0.6666667f},
                        {"LeakyRelu", -2, -0.02f},
                        {"Mish", 1, 0.8650984f},
                        {"Relu", -1, 0},
                        {"Selu", -1, -1.1113307f},
                        {"Selu", 1, 1.050701f},
                        {"Shrink", 2, 2},
                        {"Shrink", 0.5f, 0},
                        {"Sigmoid", 1, 0.7310586f},
                        {"Softplus", 1, 1.3132617f},
                        {"Softplus", 200, 200},
                        {"Softsign", 1, 0.5f},
                        {"Swish", 1, 0.7310586f},
                        {"Tanh", 1, 0.7615942f},
                        {"ThresholdedRelu", 1, 0},
                        {"ThresholdedRelu", 2, 2}}) {
    EXPECT_TRUE(
        close_to(run_op_tensor({c.op, {Tensor::scalar(c.x)}}), Tensor::scalar(c.y), Tolerance::epsilons(DType::f32, 2)))
        << c.op;
  }
}

TEST(Gelu, ApproximatesByTanh) {
  const Tensor y = run_op_tensor({"Gelu", {Tensor::scalar(1.0f)}, {{"approximate", std::string("tanh")}}});
  EXPECT_TRUE(close_to(y, Tensor::scalar(0.841192f), Tolerance::epsilons(DType::f32, 2)));
  expect_error(ErrorKind::invalid_model, "approximate is 'fast', expected none or tanh",
               [] { run_op({"Gelu", {Tensor::scalar(1.0f)}, {{"approximate", std::string("fast")}}}); });
}

TEST(Shrink, TakesIntegers) {
  const Tensor x = Tensor::from<std::int32_t>({3}, {-3, 1, 3});
  EXPECT_TRUE(identical(run_op_tensor({"Shrink", {x}, {{"lambd", 1.5f}, {"bias", 1.0f}}}),
                        Tensor::from<std::int32_t>({3}, {-2, 0, 2})));
}

}  // namespace
}  // namespace tessera::test::activation_test
