#include "base/numbers/half.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera::base {
namespace {

// A small float format. `max_bits` is the largest finite magnitude; `infinity` and `nan` are magnitudes, or -1 if the
// format has none. In the "fnuz" formats, the only NaN is the bit pattern of negative zero.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  int max_bits, infinity, nan;
  bool negative_zero_is_nan;
};

Format format_of(DType type) {
  switch (type) {
    case DType::f8e4m3fn:
      return {4, 3, 7, 0x7E, -1, 0x7F, false};
    case DType::f8e4m3fnuz:
      return {4, 3, 8, 0x7F, -1, -1, true};
    case DType::f8e5m2:
      return {5, 2, 15, 0x7B, 0x7C, 0x7F, false};
    case DType::f8e5m2fnuz:
      return {5, 2, 16, 0x7F, -1, -1, true};
    case DType::f4e2m1:
      return {2, 1, 1, 0x7, -1, -1, false};
    default:
      fail(ErrorKind::unsupported, "{} is not a small float format", name_of(type));
  }
}

// f8e8m0 is a power of two without sign or mantissa, 2^(bits - 127); 0xFF is NaN.
float scale_to_float(std::uint8_t bits) {
  if (bits == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  // Composed from bits, because arithmetic may flush the smallest value, which is denormal.
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : static_cast<std::uint32_t>(bits) << 23);
}

std::uint8_t float_to_scale(float value) {
  if (std::isnan(value) || std::isinf(value) || value < 0) return 0xFF;
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
  const int biased = exponent - 1 + 127 + (fraction >= 0.75f ? 1 : 0);
  return static_cast<std::uint8_t>(std::clamp(biased, 0, 254));
}

// Rounds a finite non-negative double to `mantissa_bits` with gradual underflow below 2^min_exponent; to nearest, ties
// to even.
double round_to_format(double magnitude, int mantissa_bits, int min_exponent) {
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)), exponent - mantissa_bits);
}

}  // namespace

f16_t to_f16(double value) {
  if (!std::isfinite(value)) return to_f16(static_cast<float>(value));
  const double rounded = round_to_format(std::fabs(value), 10, -14);
  return to_f16(static_cast<float>(std::copysign(std::min(rounded, 131072.0), value)));
}

bf16_t to_bf16(double value) {
  if (!std::isfinite(value)) return to_bf16(static_cast<float>(value));
  return to_bf16(static_cast<float>(std::copysign(round_to_format(std::fabs(value), 7, -126), value)));
}

float small_float_to_float(DType type, std::uint8_t bits) {
  if (type == DType::f8e8m0) return scale_to_float(bits);
  const Format format = format_of(type);
  const int sign_bit = 1 << (format.exponent_bits + format.mantissa_bits);
  const int magnitude = bits & (sign_bit - 1);
  const bool negative = (bits & sign_bit) != 0;
  if ((format.negative_zero_is_nan && negative && magnitude == 0) || magnitude == format.nan ||
      (format.infinity >= 0 && magnitude > format.infinity)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  float result = 0;
  if (magnitude == format.infinity) {
    result = std::numeric_limits<float>::infinity();
  } else {
    const int exponent = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int implicit = exponent > 0 ? 1 << format.mantissa_bits : 0;
    result =
        std::ldexp(static_cast<float>(mantissa + implicit), std::max(exponent, 1) - format.bias - format.mantissa_bits);
  }
  return negative ? -result : result;
}

std::uint8_t float_to_small_float(DType type, float value, bool saturate) {
  if (type == DType::f8e8m0) return float_to_scale(value);
  const Format format = format_of(type);
  const int sign_bit = 1 << (format.exponent_bits + format.mantissa_bits);
  const bool has_nan = format.nan >= 0 || format.negative_zero_is_nan;
  const int sign = std::signbit(value) ? sign_bit : 0;
  const auto nan_bits = static_cast<std::uint8_t>(format.negative_zero_is_nan ? sign_bit : (sign | format.nan));
  // f4e2m1 has no NaN; the ONNX test data (and ml_dtypes) make it negative zero.
  if (std::isnan(value)) return has_nan ? nan_bits : static_cast<std::uint8_t>(sign_bit);
  const int min_exponent = 1 - format.bias;
  const double rounded = std::isinf(value) ? static_cast<double>(value)
                                           : round_to_format(std::fabs(value), format.mantissa_bits, min_exponent);
  const float largest = small_float_to_float(type, static_cast<std::uint8_t>(format.max_bits));
  if (std::fabs(rounded) > largest) {
    // f4e2m1 has neither NaN nor infinity, so it always saturates.
    if (saturate || !has_nan) return static_cast<std::uint8_t>(sign | format.max_bits);
    return format.infinity >= 0 ? static_cast<std::uint8_t>(sign | format.infinity) : nan_bits;
  }
  if (rounded == 0) return static_cast<std::uint8_t>(format.negative_zero_is_nan ? 0 : sign);
  const int exponent = std::max(std::ilogb(rounded), min_exponent);
  const int scaled = static_cast<int>(std::ldexp(rounded, format.mantissa_bits - exponent));
  // A normal number carries its implicit bit, which adds one to the exponent field.
  return static_cast<std::uint8_t>(sign | (((exponent - min_exponent) << format.mantissa_bits) + scaled));
}

}  // namespace tessera::base
