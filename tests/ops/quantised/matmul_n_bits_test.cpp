#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::matmul_n_bits_test {
namespace {

using ir::Attributes;
using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kOp = "com.microsoft::MatMulNBits";

Attributes sizes(std::int64_t k, std::int64_t n, std::int64_t bits) {
  return {{"K", k}, {"N", n}, {"bits", bits}, {"block_size", std::int64_t{16}}};
}

// One row of weights 0, 1 … 15, then 15, 14 … 0, in two blocks of 16.
Tensor four_bits() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(2 * i | (2 * i + 1) << 4));
  for (int i = 7; i >= 0; --i) bytes.push_back(static_cast<std::uint8_t>((2 * i + 1) | (2 * i) << 4));
  return Tensor::from<std::uint8_t>({1, 2, 8}, std::span<const std::uint8_t>(bytes));
}

// The weights themselves: the unit matrix on the left.
Tensor weights(const std::vector<Value>& quantised, std::int64_t k, std::int64_t bits) {
  Tensor unit(DType::f32, {k, k});
  std::fill(unit.mutable_values<float>().begin(), unit.mutable_values<float>().end(), 0.0f);
  for (std::int64_t i = 0; i < k; ++i) unit.mutable_data<float>()[i * k + i] = 1;
  std::vector<Value> inputs{unit};
  inputs.insert(inputs.end(), quantised.begin(), quantised.end());
  return run_op_tensor({kOp, inputs, sizes(k, 1, bits)}).reshaped({k});
}

Tensor expected(std::int64_t k, const std::function<float(std::int64_t)>& value) {
  Tensor result(DType::f32, {k});
  for (std::int64_t i = 0; i < k; ++i) result.mutable_data<float>()[i] = value(i);
  return result;
}

std::int64_t number(std::int64_t i) {
  return i < 16 ? i : 31 - i;
}
const Tensor kScales = Tensor::from<float>({1, 2}, {0.5f, 2});

TEST(MatMulNBits, ReadsTheLowBitsFirst) {
  EXPECT_TRUE(close_to(weights({four_bits(), kScales}, 32, 4), expected(32, [](std::int64_t i) {
                         return (i < 16 ? 0.5f : 2.0f) * static_cast<float>(number(i) - 8);
                       })));
  // Numbers of 2 bits: 0b11100100 is 0, 1, 2, 3.
  const std::vector<std::uint8_t> bytes(4, 0b11100100);
  EXPECT_TRUE(close_to(
      weights({Tensor::from<std::uint8_t>({1, 1, 4}, std::span(bytes)), Tensor::from<float>({1, 1}, {3})}, 16, 2),
      expected(16, [](std::int64_t i) { return 3.0f * static_cast<float>(i % 4 - 2); })));
}

TEST(MatMulNBits, TakesZeroPointsPackedOrReal) {
  const auto with = [](float first, float second) {
    return expected(32, [=](std::int64_t i) {
      return i < 16 ? 0.5f * (static_cast<float>(number(i)) - first) : 2.0f * (static_cast<float>(number(i)) - second);
    });
  };
  EXPECT_TRUE(
      close_to(weights({four_bits(), kScales, Tensor::from<std::uint8_t>({1, 1}, {0xC3})}, 32, 4), with(3, 12)));
  EXPECT_TRUE(close_to(weights({four_bits(), kScales, Tensor::from<float>({1, 2}, {2.5f, 9})}, 32, 4), with(2.5f, 9)));
}

TEST(MatMulNBits, LooksUpBlocksByGroup) {
  std::vector<std::int32_t> groups(32);
  for (std::size_t i = 0; i < 32; ++i) groups[i] = i % 2 == 0 ? 0 : 1;
  const Tensor index = Tensor::from<std::int32_t>({32}, std::span<const std::int32_t>(groups));
  EXPECT_TRUE(close_to(weights({four_bits(), kScales, Tensor::from<std::uint8_t>({1, 1}, {0xC3}), index}, 32, 4),
                       expected(32, [](std::int64_t i) {
                         return i % 2 == 0 ? 0.5f * static_cast<float>(number(i) - 3)
                                           : 2.0f * static_cast<float>(number(i) - 12);
                       })));
}

TEST(MatMulNBits, CutsTheLastBlockAndAddsTheBias) {
  const Tensor a = Tensor::from<float>({2, 1, 18}, std::span<const float>(std::vector<float>(36, 1.0f)));
  // 0.5 (0 + 1 + … + 15 - 16 · 8) + 2 (15 + 14 - 2 · 8) + 7 = -4 + 26 + 7
  EXPECT_TRUE(close_to(
      run_op_tensor({kOp, {a, four_bits(), kScales, Value(), Value(), Tensor::from<float>({1}, {7})}, sizes(18, 1, 4)}),
      Tensor::from<float>({2, 1, 1}, {29, 29})));
}

TEST(MatMulNBits, KeepsSymbolicShapeAndTakesFlatScales) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType a = ValueType::tensor(DType::f16, Dims{batch, length, 40}),
                  b = ValueType::tensor(DType::u8, Shape{6, 3, 8}), flat = ValueType::tensor(DType::f16, Shape{18}),
                  zeros = ValueType::tensor(DType::u8, Shape{12});
  EXPECT_EQ(infer_op(kOp, {a, b, flat, zeros}, sizes(40, 6, 4))[0],
            ValueType::tensor(DType::f16, Dims{batch, length, 6}));
}

TEST(MatMulNBits, RefusesWhatDoesNotFit) {
  const ValueType a = ValueType::tensor(DType::f32, Shape{2, 40}), b = ValueType::tensor(DType::u8, Shape{6, 3, 8}),
                  scales = ValueType::tensor(DType::f32, Shape{6, 3});
  const auto refuse = [&](const std::string& message, const std::vector<ValueType>& inputs, Attributes attributes) {
    expect_error(ErrorKind::invalid_model, message, [&] { infer_op(kOp, inputs, attributes); });
  };
  refuse("bits is 3, expected 2, 4 or 8", {a, b, scales}, sizes(40, 6, 3));
  refuse("input 'B' has shape [6, 3, 8], expected [6, 3, 4]", {a, b, scales}, sizes(40, 6, 2));
  refuse("input 'A' has shape [2, 40], expected K = 48 as its last dimension", {a, b, scales}, sizes(48, 6, 4));
  refuse("input 'zero_points' has shape [6, 3], expected [6, 2]",
         {a, b, scales, ValueType::tensor(DType::u8, Shape{6, 3})}, sizes(40, 6, 4));
  Attributes odd = sizes(40, 6, 4);
  odd["block_size"] = std::int64_t{24};
  refuse("block_size is 24, expected a power of two of at least 16", {a, b, scales}, odd);
  Attributes packed = sizes(40, 6, 4);
  packed["weight_prepacked"] = std::int64_t{1};
  refuse("weight_prepacked is 1: the weights are laid out for one device, expected 0", {a, b, scales}, packed);
}

}  // namespace
}  // namespace tessera::test::matmul_n_bits_test
