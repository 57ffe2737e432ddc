#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::cast_test {
namespace {

Tensor cast_to(const Tensor& x, DType type, ir::Attributes attributes = {}) {
  attributes["to"] = static_cast<std::int64_t>(type);
  return run_op_tensor({"Cast", {x}, attributes});
}

template <typename T>
Tensor vector_of(std::initializer_list<T> values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, values);
}

Tensor bytes_as(DType type, std::initializer_list<std::uint8_t> bytes) {
  Tensor tensor(type, {static_cast<std::int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), static_cast<std::uint8_t*>(tensor.mutable_raw()));
  return tensor;
}

TEST(Cast, BetweenNumbers) {
  EXPECT_TRUE(identical(cast_to(vector_of<float>({-1.9f, 1.9f}), DType::i32), vector_of<std::int32_t>({-1, 1})));
  EXPECT_TRUE(identical(cast_to(vector_of<std::int16_t>({200, -1}), DType::i8), vector_of<std::int8_t>({-56, -1})));
  EXPECT_TRUE(identical(cast_to(vector_of<float>({0.0f, -0.0f, 0.1f, NAN}), DType::boolean),
                        vector_of<bool>({false, false, true, true})));
  EXPECT_TRUE(identical(cast_to(vector_of<double>({1e300}), DType::f32), vector_of<float>({INFINITY})));
}

TEST(Cast, WritesNumbersAsText) {
  EXPECT_TRUE(
      identical(cast_to(vector_of<float>({0.1f, 3, -2.5f, 1e-5f, 123456789.0f, 1e20f, NAN, -INFINITY}), DType::string),
                vector_of<std::string>({"0.1", "3.0", "-2.5", "1e-05", "123456790.0", "1e+20", "nan", "-inf"})));
  EXPECT_TRUE(
      identical(cast_to(vector_of<double>({0.1, 0.00012}), DType::string), vector_of<std::string>({"0.1", "0.00012"})));
  EXPECT_TRUE(identical(cast_to(vector_of<std::int64_t>({-7}), DType::string), vector_of<std::string>({"-7"})));
}

TEST(Cast, ReadsNumbersFromText) {
  const Tensor text = vector_of<std::string>({"3.14", "1E-5", "+INF", "-inf", "NaN", " 7 "});
  EXPECT_TRUE(close_to(cast_to(text, DType::f32), vector_of<float>({3.14f, 1e-5f, INFINITY, -INFINITY, NAN, 7})));
  EXPECT_TRUE(identical(cast_to(vector_of<std::string>({"100.5", "-9223372036854775808"}), DType::i64),
                        vector_of<std::int64_t>({100, INT64_MIN})));
  EXPECT_TRUE(
      close_to(cast_to(vector_of<std::string>({"1e999", "1e-999"}), DType::f64), vector_of<double>({INFINITY, 0})));
  for (const char* bad : {"", "Hello", "1x", "+-1"}) {
    expect_error(ErrorKind::failed, std::string("'") + bad + "' is not a number",
                 [&] { cast_to(vector_of<std::string>({bad}), DType::f32); });
  }
}

// After the tables in ONNX's description of Cast.
TEST(Cast, SaturatesEightBitFloatsOrNot) {
  const Tensor x = vector_of<float>({1000, -INFINITY, 1});
  EXPECT_TRUE(identical(cast_to(x, DType::f8e4m3fn), bytes_as(DType::f8e4m3fn, {0x7E, 0xFE, 0x38})));
  EXPECT_TRUE(identical(cast_to(x, DType::f8e4m3fn, {{"saturate", std::int64_t{0}}}),
                        bytes_as(DType::f8e4m3fn, {0x7F, 0xFF, 0x38})));
  const Tensor scales = vector_of<float>({1, 1.25f, 1.5f, 0, INFINITY});
  EXPECT_TRUE(identical(cast_to(scales, DType::f8e8m0), bytes_as(DType::f8e8m0, {127, 128, 128, 0, 0xFE})));
  EXPECT_TRUE(
      identical(cast_to(scales, DType::f8e8m0, {{"round_mode", std::string("nearest")}, {"saturate", std::int64_t{0}}}),
                bytes_as(DType::f8e8m0, {127, 127, 128, 0xFF, 0xFF})));
}

TEST(CastLike, TakesTheTypeOfTheSecond) {
  EXPECT_TRUE(identical(run_op_tensor({"CastLike", {vector_of<float>({1.5f}), Tensor(DType::u8, {3})}}),
                        vector_of<std::uint8_t>({1})));
}

TEST(BitCast, KeepsBits) {
  EXPECT_TRUE(identical(run_op_tensor({"BitCast", {vector_of<float>({1})}, {{"to", std::int64_t{6}}}}),
                        vector_of<std::int32_t>({0x3F800000})));
  expect_error(ErrorKind::invalid_model, "f32 has 32 bits and i64 has 64, expected the same width",
               [] { run_op({"BitCast", {vector_of<float>({1})}, {{"to", std::int64_t{7}}}}); });
}

TEST(Cast, InfersTheType) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("n")});
  EXPECT_EQ(ir::to_string(infer_op("Cast", {x}, {{"to", std::int64_t{7}}})[0]), "i64[n]");
  expect_error(ErrorKind::invalid_model, "attribute 'to' is 99, which is no element type",
               [&] { infer_op("Cast", {x}, {{"to", std::int64_t{99}}}); });
}

}  // namespace
}  // namespace tessera::test::cast_test
