// Conversions of rows between float32 and 8-bit integers.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

struct Extremes {
  float low = 0, high = 0;  // the range always includes 0
};

// Quantises: saturate(round(x / scale) + zero), ties to even, NaN to the zero point; y may be x's memory. Dequantises:
// (x - zero) scale.
struct QuantisationRows {
  void (*to_u8)(const float* x, std::uint8_t* y, std::int64_t count, float scale, float zero);
  void (*to_i8)(const float* x, std::int8_t* y, std::int64_t count, float scale, float zero);
  void (*from_u8)(const std::uint8_t* x, float* y, std::int64_t count, float scale, float zero);
  void (*from_i8)(const std::int8_t* x, float* y, std::int64_t count, float scale, float zero);
  Extremes (*extremes)(const float* x, std::int64_t count);
};

// Returns the functions of the active instruction set.
QuantisationRows quantisation_rows();

}  // namespace tessera::backends::cpu
