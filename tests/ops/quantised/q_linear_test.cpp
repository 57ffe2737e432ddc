#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::q_linear_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

constexpr std::int64_t kNo = 0, kYes = 1;

Tensor bytes(const Shape& shape, std::initializer_list<std::uint8_t> values) {
  return Tensor::from<std::uint8_t>(shape, values);
}
Tensor scale(float value) {
  return Tensor::scalar(value);
}
Tensor zero(std::uint8_t value) {
  return Tensor::scalar(value);
}

TEST(QLinear, AddsRealNumbers) {
  // (10 - 2) 0.5 + (7 - 3) 0.25 = 5 and (0 - 2) 0.5 + (7 - 3) 0.25 = 0, over 0.5 and 100 from there.
  const Tensor a = bytes({2}, {10, 0}), b = bytes({1}, {7});
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::QLinearAdd",
                                      {a, scale(0.5f), zero(2), b, scale(0.25f), zero(3), scale(0.5f), zero(100)}}),
                       bytes({2}, {110, 100})));
}

TEST(QLinear, TakesAbsentZeroPointsAsZeroAndSaturates) {
  const Tensor a = Tensor::from<std::int8_t>({2}, {-100, 20});
  const Tensor product =
      run_op_tensor({"com.microsoft::QLinearMul", {a, scale(1), Value(), a, scale(1), Value(), scale(8)}});
  EXPECT_TRUE(close_to(product, Tensor::from<std::int8_t>({2}, {127, 50})));
}

TEST(QLinear, AppliesActivations) {
  const Tensor x = bytes({3}, {8, 10, 14});
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {"com.microsoft::QLinearLeakyRelu", {x, scale(1), zero(10), scale(0.5f), zero(4)}, {{"alpha", 0.5f}}}),
      bytes({3}, {2, 4, 12})));
  // sigmoid(-2, 0, 4) = 0.1192, 0.5, 0.9820, over 1 / 256
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::QLinearSigmoid", {x, scale(1), zero(10), scale(1.0f / 256)}}),
                       bytes({3}, {31, 128, 251})));
}

TEST(QLinear, SoftmaxBeforeOperatorSet13TakesAxesTogether) {
  const Tensor x = bytes({1, 2, 2}, {5, 5, 5, 5});
  const auto softmax = [&](std::int64_t opset) {
    return run_op_tensor({"com.microsoft::QLinearSoftmax",
                          {x, scale(1), zero(0), scale(1.0f / 128), zero(0)},
                          {{"opset", opset}, {"axis", kYes}}});
  };
  EXPECT_TRUE(close_to(softmax(12), bytes({1, 2, 2}, {32, 32, 32, 32})));
  EXPECT_TRUE(close_to(softmax(13), bytes({1, 2, 2}, {64, 64, 64, 64})));
}

TEST(QLinear, AveragesWindowsAndPadding) {
  const Tensor x = bytes({1, 1, 3}, {10, 20, 60});
  const auto pool = [&](std::int64_t include) {
    const std::vector<std::int64_t> kernel{2}, pads{1, 0}, strides{2};
    return run_op_tensor(
        {"com.microsoft::QLinearAveragePool",
         {x, scale(1), zero(0), scale(1), zero(1)},
         {{"kernel_shape", kernel}, {"pads", pads}, {"strides", strides}, {"count_include_pad", include}}});
  };
  EXPECT_TRUE(close_to(pool(kNo), bytes({1, 1, 2}, {11, 41})));
  EXPECT_TRUE(close_to(pool(kYes), bytes({1, 1, 2}, {6, 41})));
  EXPECT_TRUE(
      close_to(run_op_tensor({"com.microsoft::QLinearGlobalAveragePool", {x, scale(1), zero(0), scale(2), zero(0)}}),
               bytes({1, 1, 1}, {15})));
}

TEST(QLinear, CountsWholeWindowsWithCeilMode) {
  // The second window reaches one beyond the end: 60 / 2.
  const Tensor x = bytes({1, 1, 3}, {10, 20, 60});
  const std::vector<std::int64_t> kernel{2}, strides{2};
  EXPECT_TRUE(close_to(
      run_op_tensor(
          {"com.microsoft::QLinearAveragePool",
           {x, scale(1), zero(0), scale(1), zero(0)},
           {{"kernel_shape", kernel}, {"strides", strides}, {"ceil_mode", kYes}, {"count_include_pad", kYes}}}),
      bytes({1, 1, 2}, {15, 30})));
}

TEST(QLinear, ReducesToTheMean) {
  const Tensor x = bytes({2, 2}, {0, 4, 10, 20});
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::QLinearReduceMean",
                                      {x, scale(0.5f), zero(0), scale(0.25f), zero(3)},
                                      {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", kNo}}}),
                       bytes({2}, {7, 33})));
}

TEST(QLinear, SelectsAndJoins) {
  const Tensor condition = Tensor::from<bool>({2}, {true, false}), x = bytes({2}, {1, 2}), y = bytes({1}, {30});
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::QLinearWhere",
                                      {condition, x, scale(4), zero(0), y, scale(1), zero(10), scale(2), zero(1)}}),
                       bytes({2}, {3, 11})));
  EXPECT_TRUE(close_to(run_op_tensor({"com.microsoft::QLinearConcat",
                                      {scale(2), zero(1), x, scale(4), zero(0), y, scale(1), zero(10)},
                                      {{"axis", kNo}}}),
                       bytes({3}, {3, 5, 11})));
}

TEST(QLinear, KeepsSymbolicShapes) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType x = ValueType::tensor(DType::u8, Dims{batch, 4, length}),
                  row = ValueType::tensor(DType::u8, Dims{4, 1});
  const ValueType s = ValueType::tensor(DType::f32, Dims{}), z = ValueType::tensor(DType::u8, Dims{});
  EXPECT_EQ(infer_op("com.microsoft::QLinearAdd", {x, s, z, row, s, z, s, z})[0], x);
  EXPECT_EQ(infer_op("com.microsoft::QLinearGlobalAveragePool", {x, s, z, s, z})[0],
            ValueType::tensor(DType::u8, Dims{batch, 4, 1}));
  EXPECT_EQ(infer_op("com.microsoft::QLinearConcat", {s, z, x, s, z, x, s, z}, {{"axis", std::int64_t{1}}})[0],
            ValueType::tensor(DType::u8, Dims{batch, 8, length}));
  EXPECT_EQ(infer_op("com.microsoft::QLinearReduceMean", {x, s, z, s, z},
                     {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", kNo}})[0],
            ValueType::tensor(DType::u8, Dims{batch, length}));
}

TEST(QLinear, RefusesWhatDoesNotFit) {
  const ValueType x = ValueType::tensor(DType::u8, Shape{2, 3}), s = ValueType::tensor(DType::f32, Dims{}),
                  z = ValueType::tensor(DType::u8, Dims{}), many = ValueType::tensor(DType::f32, Shape{3}),
                  other = ValueType::tensor(DType::i8, Dims{});
  expect_error(ErrorKind::invalid_model, "input 1 has shape [3], expected a scalar",
               [&] { infer_op("com.microsoft::QLinearSigmoid", {x, many, z, s, z}); });
  expect_error(ErrorKind::invalid_model, "inputs 'X' (u8) and 'X_zero_point' (i8) must have the same element type",
               [&] { infer_op("com.microsoft::QLinearSigmoid", {x, s, other, s, z}); });
  expect_error(ErrorKind::invalid_model, "attribute 'opset' is missing",
               [&] { infer_op("com.microsoft::QLinearSoftmax", {x, s, z, s, z}); });
  expect_error(ErrorKind::invalid_model, "has 6 inputs, expected a scale, a zero point, and three a tensor",
               [&] { infer_op("com.microsoft::QLinearConcat", {s, z, x, s, z, x}, {{"axis", kNo}}); });
  expect_error(ErrorKind::invalid_model, "inputs 2 to 4 are not a tensor of u8, its scale of f32 and its zero point",
               [&] { infer_op("com.microsoft::QLinearConcat", {s, z, x, s, other}, {{"axis", kNo}}); });
}

}  // namespace
}  // namespace tessera::test::q_linear_test
