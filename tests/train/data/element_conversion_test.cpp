#include "train/data/element_conversion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/numbers/half.h"
#include "support/expect_error.h"

namespace tessera::train::element_conversion_test {
namespace {

using test::expect_error_containing;

template <typename From>
std::int64_t fault_of(From value, DType to) {
  std::uint64_t out = 0;
  return convert_elements(dtype_of<From>, reinterpret_cast<const std::byte*>(&value), to,
                          reinterpret_cast<std::byte*>(&out), 1, false);
}

TEST(ElementConversion, RoundsFloatsAndKeepsIntegers) {
  const Tensor doubles = Tensor::from<double>({3}, {0.1, -2.5, 1e9});
  const Tensor floats = converted_tensor(doubles, DType::f32, false, "x");
  EXPECT_EQ(floats.data<float>()[0], 0.1f);
  EXPECT_EQ(floats.data<float>()[2], 1e9f);
  const Tensor halves = Tensor::from<f16_t>({1}, {base::to_f16(1.5f)});
  EXPECT_EQ(converted_tensor(halves, DType::f64, false, "x").data<double>()[0], 1.5);
  const Tensor labels = Tensor::from<float>({2}, {3.0f, -100.0f});
  EXPECT_EQ(converted_tensor(labels, DType::i64, false, "y").data<std::int64_t>()[1], -100);
  const Tensor flags = Tensor::from<bool>({2}, {true, false});
  EXPECT_EQ(converted_tensor(flags, DType::f32, false, "y").data<float>()[0], 1);
  EXPECT_TRUE(converted_tensor(floats, DType::f32, false, "x").shares_storage_with(floats));
}

TEST(ElementConversion, BytesOfPicturesAreScaledAndThoseOfTargetsAreNot) {
  const Tensor bytes = Tensor::from<std::uint8_t>({2}, {255, 51});
  EXPECT_EQ(converted_tensor(bytes, DType::f32, true, "x").data<float>()[0], 1);
  EXPECT_FLOAT_EQ(converted_tensor(bytes, DType::f32, true, "x").data<float>()[1], 0.2f);
  EXPECT_EQ(converted_tensor(bytes, DType::f32, false, "y").data<float>()[1], 51);
  EXPECT_EQ(converted_tensor(bytes, DType::i64, true, "x").data<std::int64_t>()[0], 255);
}

TEST(ElementConversion, RefusesWhatTheTargetCannotHold) {
  EXPECT_EQ(fault_of(1.5, DType::i64), 0);
  EXPECT_EQ(fault_of(std::nan(""), DType::i32), 0);
  EXPECT_EQ(fault_of(std::numeric_limits<float>::infinity(), DType::i64), 0);
  EXPECT_EQ(fault_of(9.3e18f, DType::i64), 0);
  EXPECT_EQ(fault_of(-9.223372036854775808e18, DType::i64), -1);
  EXPECT_EQ(fault_of(-1, DType::u8), 0);
  EXPECT_EQ(fault_of(256.0, DType::u8), 0);
  EXPECT_EQ(fault_of(255.0, DType::u8), -1);
  EXPECT_EQ(fault_of(std::int64_t{1} << 40, DType::i32), 0);
  EXPECT_EQ(fault_of(2, DType::boolean), 0);
  EXPECT_EQ(fault_of(1.0, DType::boolean), -1);
  EXPECT_EQ(fault_of(1e300, DType::f32), 0);
  EXPECT_EQ(fault_of(70000.0f, DType::f16), 0);
  EXPECT_EQ(fault_of(std::nan(""), DType::f32), -1);  // what is not finite stays so
  EXPECT_EQ(fault_of(HUGE_VAL, DType::f16), -1);
  expect_error_containing(ErrorKind::invalid_argument, "the array 'y' is f64 and holds 1.5, which i64 cannot hold", [] {
    converted_tensor(Tensor::from<double>({2}, {1, 1.5}), DType::i64, false, "the array 'y'");
  });
  expect_error_containing(ErrorKind::invalid_argument, "'x' is c64, expected f32",
                          [] { converted_tensor(Tensor(DType::c64, {1}), DType::f32, false, "'x'"); });
}

}  // namespace
}  // namespace tessera::train::element_conversion_test
