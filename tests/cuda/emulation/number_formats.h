// Conversions between float and the narrow formats, as PTX's cvt makes them: to nearest, ties to even.
#pragma once

#include <cstdint>

namespace tessera::emulation {

// The elements of a matrix operand.
enum class Format { f16, bf16, tf32, e4m3, e5m2, s8 };
unsigned bytes_of(Format format);

float decode_f16(std::uint16_t bits);
float decode_bf16(std::uint16_t bits);
float decode_e4m3(std::uint8_t bits);
float decode_e5m2(std::uint8_t bits);
std::uint16_t encode_f16(float value);
std::uint16_t encode_bf16(float value);
// Values beyond the largest finite number become it (PTX: satfinite).
std::uint8_t encode_e4m3(float value);
std::uint8_t encode_e5m2(float value);

// Element `index` of a row in memory, as a float (s8: the integer; tf32: with 10 bits of mantissa).
float decode(Format format, const void* row, unsigned index);

}  // namespace tessera::emulation
