#include "base/numbers/half.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace tessera::test::half_test {
namespace {

using base::float_to_small_float;
using base::small_float_to_float;
using base::to_bf16;
using base::to_f16;
using base::to_float;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Half, EveryF16ComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const f16_t half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(value))));
      continue;
    }
    ASSERT_EQ(to_f16(value).bits, bits);
    ASSERT_EQ(to_f16(static_cast<double>(value)).bits, bits);
  }
}

TEST(Half, EveryBf16ComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = to_float(bf16_t{static_cast<std::uint16_t>(bits)});
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(value))));
      continue;
    }
    ASSERT_EQ(to_bf16(value).bits, bits);
    ASSERT_EQ(to_bf16(static_cast<double>(value)).bits, bits);
  }
}

TEST(Half, F16RoundsToNearestEven) {
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f).bits, 0x3C00);      // tie: even stays
  EXPECT_EQ(to_f16(1.0f + 3 * 0x1p-11f).bits, 0x3C02);  // tie: odd goes up
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f + 0x1p-20f).bits, 0x3C01);
  EXPECT_EQ(to_f16(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_f16(-1e10f).bits, 0xFC00);
  EXPECT_EQ(to_f16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);  // tie with zero
  EXPECT_EQ(to_f16(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(to_f16(-0.0f).bits, 0x8000);
}

// Through float32 these would be rounded twice, up to the wrong neighbour.
TEST(Half, DoublesAreRoundedOnce) {
  EXPECT_EQ(to_f16(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3C01);
  EXPECT_EQ(to_f16(static_cast<float>(1.0 + 0x1p-11 + 0x1p-40)).bits, 0x3C00);
  EXPECT_EQ(to_bf16(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3F81);
  EXPECT_EQ(to_f16(1e300).bits, 0x7C00);
  EXPECT_EQ(to_f16(-1e300).bits, 0xFC00);
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(to_bf16(1.0f + 3 * 0x1p-8f).bits, 0x3F82);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7F80);
}

TEST(SmallFloats, EveryValueComesBack) {
  for (DType type :
       {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0, DType::f4e2m1}) {
    for (int bits = 0; bits < (type == DType::f4e2m1 ? 16 : 256); ++bits) {
      const float value = small_float_to_float(type, static_cast<std::uint8_t>(bits));
      const std::uint8_t back = float_to_small_float(type, value, false);
      if (std::isnan(value)) EXPECT_TRUE(std::isnan(small_float_to_float(type, back))) << name_of(type) << " " << bits;
      else EXPECT_EQ(back, bits) << name_of(type);
    }
  }
}

// Largest, smallest normal and smallest subnormal values of OCP FP8 1.0 (table 2) and arXiv:2206.02915.
TEST(SmallFloats, KnownValues) {
  EXPECT_EQ(small_float_to_float(DType::f8e4m3fn, 0x7E), 448.0f);
  EXPECT_EQ(small_float_to_float(DType::f8e4m3fn, 0x08), 0x1p-6f);
  EXPECT_EQ(small_float_to_float(DType::f8e4m3fn, 0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(small_float_to_float(DType::f8e4m3fn, 0xFF)));
  EXPECT_EQ(small_float_to_float(DType::f8e5m2, 0x7B), 57344.0f);
  EXPECT_EQ(small_float_to_float(DType::f8e5m2, 0xFC), -kInfinity);
  EXPECT_EQ(small_float_to_float(DType::f8e5m2, 0x01), 0x1p-16f);
  EXPECT_EQ(small_float_to_float(DType::f8e4m3fnuz, 0x7F), 240.0f);
  EXPECT_TRUE(std::isnan(small_float_to_float(DType::f8e4m3fnuz, 0x80)));
  EXPECT_EQ(small_float_to_float(DType::f8e5m2fnuz, 0x7F), 57344.0f);
  EXPECT_EQ(small_float_to_float(DType::f4e2m1, 0x7), 6.0f);
  EXPECT_EQ(small_float_to_float(DType::f4e2m1, 0x9), -0.5f);
  EXPECT_EQ(small_float_to_float(DType::f8e8m0, 127), 1.0f);
  EXPECT_EQ(small_float_to_float(DType::f8e8m0, 0), 0x1p-127f);
}

// The table of ONNX Cast for values beyond the largest.
TEST(SmallFloats, OverflowSaturatesOrNot) {
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, 1e6f), 0x7E);
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, -kInfinity), 0xFE);
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, 1e6f, false), 0x7F);
  EXPECT_EQ(float_to_small_float(DType::f8e5m2, kInfinity), 0x7B);
  EXPECT_EQ(float_to_small_float(DType::f8e5m2, -1e6f, false), 0xFC);
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fnuz, 1e6f), 0x7F);
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fnuz, 1e6f, false), 0x80);
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fnuz, -0.0f), 0x00);
  EXPECT_EQ(float_to_small_float(DType::f4e2m1, -100.0f, false), 0xF);
}

TEST(SmallFloats, RoundToNearestEven) {
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, 1.0625f), 0x38);        // tie between 1 and 1.125
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, 1.1875f), 0x3A);        // tie between 1.125 and 1.25
  EXPECT_EQ(float_to_small_float(DType::f8e4m3fn, 464.0f, false), 0x7E);  // tie with 480, which would be past the end
  EXPECT_EQ(float_to_small_float(DType::f4e2m1, 2.5f), 0x4);              // tie between 2 and 3
  EXPECT_EQ(float_to_small_float(DType::f4e2m1, 0.25f), 0x0);
}

TEST(SmallFloats, RefusesOtherTypes) {
  expect_error_containing(ErrorKind::unsupported, "f32 is not a small float format",
                          [] { small_float_to_float(DType::f32, 0); });
}

}  // namespace
}  // namespace tessera::test::half_test
