// Sums of scaled lines of float32, the inner loop of convolutions by a dictionary (dictionary_conv_f32.cpp).
#pragma once

#include <cstdint>

#include "backends/cpu/convolutions/response_planes.h"

namespace tessera::backends::cpu {

inline constexpr int kMostLookupVectors = 14;  // of a strip; AVX-512 has twice as many registers

// sums[p] = start + sum over i < count of coefficients[i] * lines[offsets[i] + p], for all elements of a strip.
struct LookupStrip {
  const float* lines = nullptr;
  const std::int32_t* offsets = nullptr;
  const float* coefficients = nullptr;
  std::int64_t count = 0;
  float start = 0;
  float* sums = nullptr;
};
using LookupFunction = void (*)(const LookupStrip&);

struct LookupFunctions {
  int lanes;                                 // lanes of a vector
  LookupFunction strip[kMostLookupVectors];  // by number of vectors - 1
  // y[p] = sums[p] + addend[p] within the bounds, for p < count; `addend` may be null. NaN stays NaN.
  void (*finish)(const float* sums, const float* addend, float* y, std::int64_t count, float low, float high);
  CopyRowsFunction copy_rows;
};

// Returns the functions of the active instruction set.
LookupFunctions lookup_functions();

}  // namespace tessera::backends::cpu
