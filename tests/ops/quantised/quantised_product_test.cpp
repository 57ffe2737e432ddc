#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::quantised_product_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kQGemm = "com.microsoft::QGemm", kToFloat = "com.microsoft::MatMulIntegerToFloat",
                  kDynamic = "com.microsoft::DynamicQuantizeMatMul";
constexpr std::int64_t kYes = 1;

// a - 1 = [[1, 2], [3, 4]], b - [0, 1] = [[1, 0], [2, 4]]: the product of integers is [[5, 8], [11, 16]].
const Tensor kA = Tensor::from<std::uint8_t>({2, 2}, {2, 3, 4, 5}), kAZero = Tensor::scalar(std::uint8_t{1});
const Tensor kB = Tensor::from<std::int8_t>({2, 2}, {1, 1, 2, 5}), kBZero = Tensor::from<std::int8_t>({2}, {0, 1});

TEST(QGemm, ScalesByColumnAndQuantises) {
  const Tensor a_scale = Tensor::scalar(0.5f), b_scale = Tensor::from<float>({2}, {2, 0.25f});
  const Tensor c = Tensor::from<std::int32_t>({2}, {1, -8});
  // (5 + 1) 1, (8 - 8) / 8, (11 + 1) 1, (16 - 8) / 8
  EXPECT_TRUE(close_to(run_op_tensor({kQGemm, {kA, a_scale, kAZero, kB, b_scale, kBZero, c}}),
                       Tensor::from<float>({2, 2}, {6, 0, 12, 1})));
  EXPECT_TRUE(close_to(run_op_tensor({kQGemm, {kA, a_scale, kAZero, kB, b_scale, kBZero, c}, {{"alpha", 2.0f}}}),
                       Tensor::from<float>({2, 2}, {12, 0, 24, 2})));
  const Tensor y_scale = Tensor::scalar(0.5f), y_zero = Tensor::scalar(std::uint8_t{10});
  EXPECT_TRUE(close_to(run_op_tensor({kQGemm, {kA, a_scale, kAZero, kB, b_scale, kBZero, c, y_scale, y_zero}}),
                       Tensor::from<std::uint8_t>({2, 2}, {22, 10, 34, 12})));
}

TEST(QGemm, Transposes) {
  const Tensor one = Tensor::scalar(1.0f), none = Tensor::scalar(std::int8_t{0}),
               zero = Tensor::scalar(std::uint8_t{0});
  const Tensor a = Tensor::from<std::uint8_t>({2, 1}, {3, 4}),
               b = Tensor::from<std::int8_t>({3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_TRUE(close_to(run_op_tensor({kQGemm, {a, one, zero, b, one, none}, {{"transA", kYes}, {"transB", kYes}}}),
                       Tensor::from<float>({1, 3}, {3, 4, 7})));
}

TEST(QGemm, KeepsSymbolicShapeAndRefusesHalfAResultScale) {
  const ValueType a = ValueType::tensor(DType::u8, Dims{Dim::symbol("batch"), 4}),
                  b = ValueType::tensor(DType::i8, Shape{4, 3});
  const ValueType s = ValueType::tensor(DType::f32, Dims{}), az = ValueType::tensor(DType::u8, Dims{}),
                  bz = ValueType::tensor(DType::i8, Shape{3}), c = ValueType::tensor(DType::i32, Shape{3});
  EXPECT_EQ(infer_op(kQGemm, {a, s, az, b, s, bz, c, s, az})[0],
            ValueType::tensor(DType::u8, Dims{Dim::symbol("batch"), 3}));
  EXPECT_EQ(infer_op(kQGemm, {a, s, az, b, s, bz})[0], ValueType::tensor(DType::f32, Dims{Dim::symbol("batch"), 3}));
  expect_error(ErrorKind::invalid_model, "of 'y_scale' and 'y_zero_point' only one is given",
               [&] { infer_op(kQGemm, {a, s, az, b, s, bz, c, s}); });
  expect_error(ErrorKind::invalid_model,
               "input 'b_zero_point' has shape [3], expected one value, or one for each of the 4 columns",
               [&] { infer_op(kQGemm, {a, s, az, ValueType::tensor(DType::i8, Shape{4, 4}), s, bz}); });
}

TEST(MatMulIntegerToFloat, ScalesAndAddsABias) {
  const Tensor bias = Tensor::from<float>({2}, {100, 200});
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {kToFloat, {kA, kB, Tensor::scalar(0.5f), Tensor::from<float>({2}, {2, 0.25f}), kAZero, kBZero, bias}}),
      Tensor::from<float>({2, 2}, {105, 201, 111, 202})));
}

TEST(MatMulIntegerToFloat, GivesAScalarForTwoVectors) {
  const Tensor a = Tensor::from<std::uint8_t>({2}, {2, 3}), b = Tensor::from<std::int8_t>({2}, {4, -1}),
               scale = Tensor::from<float>({1}, {0.5f});
  EXPECT_TRUE(close_to(run_op_tensor({kToFloat, {a, b, scale, scale}}), Tensor::scalar(1.25f)));
}

TEST(DynamicQuantizeMatMul, QuantisesTheLeftOperand) {
  // Scale (255 + 0) / 255 = 1 and zero point 0: the left operand is whole already.
  const Tensor a = Tensor::from<float>({1, 2}, {255, 3}), b_scale = Tensor::scalar(0.5f);
  EXPECT_TRUE(close_to(run_op_tensor({kDynamic, {a, kB, b_scale, kBZero}}), Tensor::from<float>({1, 2}, {130.5f, 6})));
  // 3.4 becomes 3.
  EXPECT_TRUE(close_to(run_op_tensor({kDynamic, {Tensor::from<float>({1, 2}, {255, 3.4f}), kB, b_scale, kBZero}}),
                       Tensor::from<float>({1, 2}, {130.5f, 6})));
}

TEST(DynamicQuantizeMatMul, RefusesABiasThatDoesNotFit) {
  const ValueType a = ValueType::tensor(DType::f32, Shape{2, 4}), b = ValueType::tensor(DType::i8, Shape{4, 3}),
                  s = ValueType::tensor(DType::f32, Dims{}), z = ValueType::tensor(DType::i8, Dims{}),
                  bias = ValueType::tensor(DType::f32, Shape{4});
  expect_error(ErrorKind::invalid_model, "the bias has shape [4], expected [3]",
               [&] { infer_op(kDynamic, {a, b, s, z, bias}); });
}

TEST(MatMulInteger16, SumsIn32Bits) {
  const Tensor a = Tensor::from<std::int16_t>({1, 2}, {30000, -2}), b = Tensor::from<std::int16_t>({2, 1}, {20000, 3});
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::MatMulInteger16", {a, b}}),
                       Tensor::from<std::int32_t>({1, 1}, {599'999'994})));
  const ValueType u = ValueType::tensor(DType::u16, Shape{2, 2});
  EXPECT_EQ(infer_op("com.microsoft::MatMulInteger16", {u, u})[0], ValueType::tensor(DType::u32, Shape{2, 2}));
}

}  // namespace
}  // namespace tessera::test::quantised_product_test
