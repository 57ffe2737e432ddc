// Lines of a resized tensor: selected elements, and blended neighbours.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// y = a * (1 - fraction) + b * fraction
void blend_rows(const float* a, const float* b, float fraction, float* y, std::int64_t count);
// y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i]
void blend_columns(const float* x, const std::int32_t* low, const std::int32_t* high, const float* fraction, float* y,
                   std::int64_t count);

// Blends bytes in double, without fused multiply-adds; results in bytes round to nearest, ties to even.
void blend_byte_rows(const std::uint8_t* a, const std::uint8_t* b, bool is_signed, double fraction, double* y,
                     std::int64_t count);
void blend_to_bytes(const double* a, const double* b, double fraction, std::uint8_t* y, std::int64_t count);
void blend_columns_to_bytes(const double* x, const std::int32_t* low, const std::int32_t* high, const double* fraction,
                            std::uint8_t* y, std::int64_t count);

// For elements of 1, 2, 4 or 8 bytes: repeats every element twice; y[i] = x[low[i]].
void double_elements(const void* x, void* y, std::int64_t count, std::int64_t bytes);
void pick_elements(const void* x, const std::int32_t* low, void* y, std::int64_t count, std::int64_t bytes);

}  // namespace tessera::backends::cpu
