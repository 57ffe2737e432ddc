// Conversions between 32-bit floats and the narrow float formats, round to nearest even.
// f16: IEEE 754-2019 binary16. bf16: the upper half of binary32. 8-bit floats: OCP 8-bit Floating Point
// Specification 1.0 (e4m3fn, e5m2) and the "fnuz" variants of arXiv:2206.02915; f8e8m0 and f4e2m1: OCP Microscaling
// Formats 1.0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/tensor.h"

namespace tessera::base {

inline float to_float(bf16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline bf16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline float to_float(f16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1F;
  const std::uint32_t mantissa = value.bits & 0x3FF;
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline f16_t to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return {static_cast<std::uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF))};
  if (magnitude >= 0x477FF000) return {static_cast<std::uint16_t>(sign | 0x7C00)};  // rounds above 65504
  if (magnitude < 0x38800000) {  // subnormal: let the float unit round by adding 2^-24 * 2^23
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000))};
  }
  const std::uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13))};
}

// Round directly from double, so that a result computed in double is rounded once, not twice.
f16_t to_f16(double value);
bf16_t to_bf16(double value);

// Decode and encode the 8-bit, 4-bit and scale formats by type. `bits` holds the element in its low bits.
// `saturate` picks ONNX Cast's behaviour on overflow: largest finite value, or NaN/infinity.
float small_float_to_float(DType type, std::uint8_t bits);
std::uint8_t float_to_small_float(DType type, float value, bool saturate = true);

}  // namespace tessera::base
