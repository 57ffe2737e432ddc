#include "emulation/number_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tessera::emulation {
namespace {

struct Layout {
  int exponent_bits, mantissa_bits;
  bool
      infinities;  // the largest exponent stands for infinities and not-a-number; else only all ones do, for the latter
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int top() const { return (1 << exponent_bits) - 1; }
};
constexpr Layout kF16{5, 10, true}, kE4M3{4, 3, false}, kE5M2{5, 2, true};

float decode_by(Layout layout, unsigned bits) {
  const unsigned mantissa = bits & ((1u << layout.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> layout.mantissa_bits) & layout.top();
  const bool negative = (bits >> (layout.exponent_bits + layout.mantissa_bits) & 1) != 0;
  float value = 0;
  if (layout.infinities && exponent == layout.top()) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (!layout.infinities && exponent == layout.top() && mantissa == (1u << layout.mantissa_bits) - 1) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - layout.bias() - layout.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 1u << layout.mantissa_bits),
                       exponent - layout.bias() - layout.mantissa_bits);
  }
  return negative ? -value : value;
}

unsigned encode_by(Layout layout, float value, bool saturate) {
  const unsigned sign = std::signbit(value) ? 1u << (layout.exponent_bits + layout.mantissa_bits) : 0;
  const unsigned all = (1u << (layout.exponent_bits + layout.mantissa_bits)) - 1;
  if (std::isnan(value)) return all;
  const unsigned infinity = static_cast<unsigned>(layout.top()) << layout.mantissa_bits;
  const unsigned largest = layout.infinities ? infinity - 1 : all - 1;
  const double magnitude = std::fabs(static_cast<double>(value));
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent with f in [0.5, 1)
  const int unit = std::max(exponent - 1, 1 - layout.bias()) - layout.mantissa_bits;
  // Beyond 2^1024 there is no double; infinity stays what it is.
  const double steps = std::isinf(magnitude) ? magnitude : std::nearbyint(std::ldexp(magnitude, -unit));
  if (std::isinf(steps)) return sign | (saturate ? largest : infinity);
  if (steps == 0) return sign;
  // `steps` in units of 2^unit; a carry into the next exponent adds up by itself.
  const int base = unit + layout.mantissa_bits + layout.bias() - 1;
  const double code = steps + static_cast<double>(base) * static_cast<double>(1 << layout.mantissa_bits);
  if (code > largest) return sign | (saturate || !layout.infinities ? largest : infinity);
  return sign | static_cast<unsigned>(code);
}

}  // namespace

unsigned bytes_of(Format format) {
  switch (format) {
    case Format::f16:
    case Format::bf16:
      return 2;
    case Format::tf32:
      return 4;
    default:
      return 1;
  }
}

float decode_f16(std::uint16_t bits) {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (unsigned i = 0; i < values.size(); ++i) values[i] = decode_by(kF16, i);
    return values;
  }();
  return table[bits];
}

float decode_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float decode_e4m3(std::uint8_t bits) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (unsigned i = 0; i < values.size(); ++i) values[i] = decode_by(kE4M3, i);
    return values;
  }();
  return table[bits];
}

float decode_e5m2(std::uint8_t bits) {
  return decode_f16(static_cast<std::uint16_t>(bits << 8));
}

std::uint16_t encode_f16(float value) {
  return static_cast<std::uint16_t>(encode_by(kF16, value, false));
}

std::uint16_t encode_bf16(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

std::uint8_t encode_e4m3(float value) {
  return static_cast<std::uint8_t>(encode_by(kE4M3, value, true));
}
std::uint8_t encode_e5m2(float value) {
  return static_cast<std::uint8_t>(encode_by(kE5M2, value, true));
}

float decode(Format format, const void* row, unsigned index) {
  const auto* bytes = static_cast<const std::uint8_t*>(row) + static_cast<std::size_t>(index) * bytes_of(format);
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, bytes_of(format));
  switch (format) {
    case Format::f16:
      return decode_f16(static_cast<std::uint16_t>(bits));
    case Format::bf16:
      return decode_bf16(static_cast<std::uint16_t>(bits));
    case Format::tf32:
      return std::bit_cast<float>(bits & 0xFFFFE000u);
    case Format::e4m3:
      return decode_e4m3(static_cast<std::uint8_t>(bits));
    case Format::e5m2:
      return decode_e5m2(static_cast<std::uint8_t>(bits));
    case Format::s8:
      return static_cast<float>(static_cast<std::int8_t>(bits));
  }
  return 0;
}

}  // namespace tessera::emulation
