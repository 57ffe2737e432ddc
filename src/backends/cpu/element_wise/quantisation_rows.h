// Between float32 and 8-bit integers, a row at a time.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

struct Extremes {
  float low = 0, high = 0;  // 0 is always within
};

// To bytes: saturate(round(x / scale) + zero), halves to even, NaN to the zero point; y may be x's memory. From bytes:
// (x - zero) scale.
struct QuantisationRows {
  void (*to_u8)(const float* x, std::uint8_t* y, std::int64_t count, float scale, float zero);
  void (*to_i8)(const float* x, std::int8_t* y, std::int64_t count, float scale, float zero);
  void (*from_u8)(const std::uint8_t* x, float* y, std::int64_t count, float scale, float zero);
  void (*from_i8)(const std::int8_t* x, float* y, std::int64_t count, float scale, float zero);
  Extremes (*extremes)(const float* x, std::int64_t count);
};

// Of the instruction set in use.
QuantisationRows quantisation_rows();

}  // namespace tessera::backends::cpu
