#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::element_wise_unary_test {
namespace {

Tensor floats(std::initializer_list<float> values) {
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
}

TEST(ElementWiseUnary, FunctionsOfFloats) {
  struct Case {
    const char* op;
    float x, y;
  };
  for (const Case& c : {Case{"Abs", -2, 2},
                        {"Acos", 0.5f, 1.0471976f},
                        {"Acosh", 2, 1.3169579f},
                        {"Asin", 0.5f, 0.5235988f},
                        {"Asinh", 1, 0.8813736f},
                        {"Atan", 1, 0.7853982f},
                        {"Atanh", 0.5f, 0.5493061f},
                        {"Ceil", -1.5f, -1},
                        {"Cos", 1, 0.5403023f},
                        {"Cosh", 1, 1.5430806f},
                        {"Erf", 0.5f, 0.5204999f},
                        {"Exp", 1, 2.7182817f},
                        {"Floor", -1.5f, -2},
                        {"Log", 2, 0.6931472f},
                        {"Neg", 2, -2},
                        {"Reciprocal", 4, 0.25f},
                        {"Round", 2.5f, 2},
                        {"Round", -3.5f, -4},
                        {"Sign", -3, -1},
                        {"Sin", 1, 0.841471f},
                        {"Sinh", 1, 1.1752012f},
                        {"Sqrt", 9, 3},
                        {"Tan", 1, 1.5574077f}}) {
    EXPECT_TRUE(close_to(run_op_tensor({c.op, {floats({c.x})}}), floats({c.y}), Tolerance::epsilons(DType::f32, 1)))
        << c.op;
  }
}

TEST(ElementWiseUnary, LowestIntegersWrap) {
  const Tensor x = Tensor::from<std::int8_t>({3}, {-128, -1, 5});
  EXPECT_TRUE(identical(run_op_tensor({"Abs", {x}}), Tensor::from<std::int8_t>({3}, {-128, 1, 5})));
  EXPECT_TRUE(identical(run_op_tensor({"Neg", {x}}), Tensor::from<std::int8_t>({3}, {-128, 1, -5})));
  const Tensor lowest = Tensor::scalar(std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(identical(run_op_tensor({"Neg", {lowest}}), lowest));
  EXPECT_TRUE(identical(run_op_tensor({"BitwiseNot", {x}}), Tensor::from<std::int8_t>({3}, {127, 0, -6})));
}

TEST(ElementWiseUnary, TestsForSpecialValues) {
  const Tensor x = floats({-INFINITY, INFINITY, NAN, 1});
  EXPECT_TRUE(identical(run_op_tensor({"IsNaN", {x}}), Tensor::from<bool>({4}, {false, false, true, false})));
  EXPECT_TRUE(identical(run_op_tensor({"IsInf", {x}, {{"detect_negative", std::int64_t{0}}}}),
                        Tensor::from<bool>({4}, {false, true, false, false})));
}

TEST(Clip, BoundsAreOptional) {
  const Tensor x = floats({-2, 0, 2});
  EXPECT_TRUE(identical(run_op_tensor({"Clip", {x, Tensor::scalar(-1.0f)}}), floats({-1, 0, 2})));
  EXPECT_TRUE(identical(run_op_tensor({"Clip", {x, Value(), Tensor::scalar(1.0f)}}), floats({-2, 0, 1})));
  EXPECT_TRUE(identical(run_op_tensor({"Clip", {x, Tensor::scalar(2.0f), Tensor::scalar(1.0f)}}), floats({1, 1, 1})));
  expect_error(ErrorKind::invalid_model, "bound 'min' has shape [2], expected a scalar",
               [&] { run_op({"Clip", {x, floats({1, 2})}}); });
}

TEST(ElementWiseUnary, KeepsSymbolsAndRefusesOtherTypes) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f16, ir::Dims{ir::Dim::symbol("batch"), 3});
  EXPECT_EQ(infer_op("Exp", {x})[0], x);
  EXPECT_EQ(ir::to_string(infer_op("IsNaN", {x})[0]), "bool[batch, 3]");
  expect_error(ErrorKind::invalid_model, "input 'X' is i32, expected one of: f32 f16 f64 bf16",
               [] { run_op({"Exp", {Tensor::scalar(std::int32_t{1})}}); });
}

}  // namespace
}  // namespace tessera::test::element_wise_unary_test
