#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::gather_block_quantized_test {
namespace {

using ir::Attributes;
using ir::Dim;
using ir::Dims;
using ir::ValueType;

const std::string kOp = "com.microsoft::GatherBlockQuantized";
constexpr std::int64_t kBlock = 16;

// u8[2, 16]: rows of 32 numbers of 4 bits, all 5 in the first row, 9 in the second.
Tensor table() {
  std::vector<std::uint8_t> bytes(16, 0x55);
  bytes.resize(32, 0x99);
  return Tensor::from<std::uint8_t>({2, 16}, std::span<const std::uint8_t>(bytes));
}
const Tensor kScales = Tensor::from<float>({2, 2}, {1, 2, 3, 4});

Tensor gather(const Tensor& indices, std::vector<Value> rest) {
  std::vector<Value> inputs{table(), indices};
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  return run_op_tensor({kOp, inputs, {{"block_size", kBlock}}});
}

// Rows whose halves of 16 numbers are all the same.
Tensor rows(std::initializer_list<float> halves) {
  std::vector<float> values;
  for (const float half : halves) values.insert(values.end(), 16, half);
  return Tensor::from<float>({static_cast<std::int64_t>(halves.size()) / 2, 32}, std::span<const float>(values));
}

TEST(GatherBlockQuantized, DequantisesTheRowsItTakes) {
  const Tensor indices = Tensor::from<std::int64_t>({3}, {1, 0, -1});
  EXPECT_TRUE(close_to(gather(indices, {kScales}), rows({3, 4, -3, -6, 3, 4})));
  // Zero points 2 and 1, then 0 and 8.
  EXPECT_TRUE(close_to(gather(indices, {kScales, Tensor::from<std::uint8_t>({2, 1}, {0x12, 0x80})}),
                       rows({27, 4, 3, 8, 27, 4})));
}

TEST(GatherBlockQuantized, GivesZerosOutsideOfTheTable) {
  EXPECT_TRUE(close_to(gather(Tensor::from<std::int32_t>({3}, {2, 0, -3}), {kScales}), rows({0, 0, -3, -6, 0, 0})));
}

TEST(GatherBlockQuantized, GathersTheQuantisedAxis) {
  // u4[32, 1] with the number 3 everywhere; the block of row 17 is the second.
  const std::vector<std::uint8_t> bytes(16, 0x33);
  Tensor numbers(DType::u4, {32, 1});
  std::copy(bytes.begin(), bytes.end(), static_cast<std::uint8_t*>(numbers.mutable_raw()));
  const Tensor scales = Tensor::from<float>({2, 1}, {1, 10});
  EXPECT_TRUE(close_to(run_op_tensor({kOp,
                                      {numbers, Tensor::from<std::int64_t>({2}, {17, 15}), scales},
                                      {{"block_size", kBlock}, {"quantize_axis", std::int64_t{0}}}}),
                       Tensor::from<float>({2, 1}, {30, 3})));
}

TEST(GatherBlockQuantized, KeepsSymbolicShape) {
  const Dim batch = Dim::symbol("batch"), length = Dim::symbol("length");
  const ValueType data = ValueType::tensor(DType::u8, Shape{100, 16}),
                  indices = ValueType::tensor(DType::i64, Dims{batch, length}),
                  scales = ValueType::tensor(DType::f16, Shape{100, 2});
  EXPECT_EQ(infer_op(kOp, {data, indices, scales}, {{"block_size", kBlock}})[0],
            ValueType::tensor(DType::f16, Dims{batch, length, 32}));
}

TEST(GatherBlockQuantized, RefusesWhatDoesNotFit) {
  const ValueType data = ValueType::tensor(DType::u8, Shape{100, 16}),
                  indices = ValueType::tensor(DType::i64, Shape{3}),
                  scales = ValueType::tensor(DType::f32, Shape{100, 2}),
                  small = ValueType::tensor(DType::f8e4m3fn, Shape{100, 32});
  const auto refuse = [&](const std::string& message, const std::vector<ValueType>& inputs,
                          const Attributes& attributes) {
    expect_error(ErrorKind::invalid_model, message, [&] { infer_op(kOp, inputs, attributes); });
  };
  refuse("scales of shape [100, 2] do not cover a table of [100, 32] in blocks of 32 along axis 1",
         {data, indices, scales}, {{"block_size", std::int64_t{32}}});
  refuse("gather_axis is 1 for a table of u8, expected 0", {data, indices, scales},
         {{"block_size", kBlock}, {"gather_axis", std::int64_t{1}}});
  refuse("gather_axis and quantize_axis are both 0 for a packed table", {data, indices, scales},
         {{"block_size", kBlock}, {"quantize_axis", std::int64_t{0}}});
  refuse("block_size is 0, expected a power of two of at least 16", {data, indices, scales},
         {{"block_size", std::int64_t{0}}});
  refuse("a table of f8e4m3fn has no zero points", {small, indices, scales, small}, {{"block_size", kBlock}});
}

}  // namespace
}  // namespace tessera::test::gather_block_quantized_test
