#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::fused_conv_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kConv = "com.microsoft::FusedConv";

TEST(FusedConv, AddsThenActivates) {
  const Tensor x = Tensor::from<float>({1, 1, 3}, {1, -2, 4}), w = Tensor::from<float>({1, 1, 2}, {1, 1});
  const Tensor bias = Tensor::from<float>({1}, {-1}), sum = Tensor::from<float>({1, 1, 2}, {0.5f, 3});
  // Conv gives [-2, 1], with the sum [-1.5, 4].
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, w, bias, sum}}), Tensor::from<float>({1, 1, 2}, {-1.5f, 4})));
  EXPECT_TRUE(close_to(run_op_tensor({kConv, {x, w, bias, sum}, {{"activation", std::string("Relu")}}}),
                       Tensor::from<float>({1, 1, 2}, {0, 4})));
  EXPECT_TRUE(close_to(
      run_op_tensor({kConv,
                     {x, w, Value(), sum},
                     {{"activation", std::string("Clip")}, {"activation_params", std::vector<float>{0, 4.5f}}}}),
      Tensor::from<float>({1, 1, 2}, {0, 4.5f})));
}

TEST(FusedConv, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), width = Dim::symbol("width");
  const ValueType x = ValueType::tensor(DType::f32, Dims{batch, 4, width}),
                  w = ValueType::tensor(DType::f32, Shape{6, 4, 1});
  EXPECT_EQ(infer_op(kConv, {x, w})[0], ValueType::tensor(DType::f32, Dims{batch, 6, width}));
}

TEST(FusedConv, RefusesWhatDoesNotFit) {
  const ValueType x = ValueType::tensor(DType::f32, Shape{1, 1, 3}), w = ValueType::tensor(DType::f32, Shape{1, 1, 2}),
                  none = ValueType::tensor(DType::f32, Shape{1});
  expect_error(ErrorKind::invalid_model, "input 'Z' has shape [1, 1, 3], expected that of the result [1, 1, 2]",
               [&] { infer_op(kConv, {x, w, none, x}); });
  expect_error(ErrorKind::invalid_model, "activation 'Clip' has 1 parameters, expected 2", [&] {
    infer_op(kConv, {x, w}, {{"activation", std::string("Clip")}, {"activation_params", std::vector<float>{1}}});
  });
}

}  // namespace
}  // namespace tessera::test::fused_conv_test
