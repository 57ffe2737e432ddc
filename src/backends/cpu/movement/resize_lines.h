// Lines of a resized tensor: elements picked, and neighbours blended.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// y = a * (1 - fraction) + b * fraction
void blend_rows(const float* a, const float* b, float fraction, float* y, std::int64_t count);
// y[i] = x[low[i]] * (1 - fraction[i]) + x[high[i]] * fraction[i]
void blend_columns(const float* x, const std::int32_t* low, const std::int32_t* high, const float* fraction, float* y,
                   std::int64_t count);

// The same for bytes, in double and without fused steps; what blends to bytes rounds to nearest even.
void blend_byte_rows(const std::uint8_t* a, const std::uint8_t* b, bool is_signed, double fraction, double* y,
                     std::int64_t count);
void blend_to_bytes(const double* a, const double* b, double fraction, std::uint8_t* y, std::int64_t count);
void blend_columns_to_bytes(const double* x, const std::int32_t* low, const std::int32_t* high, const double* fraction,
                            std::uint8_t* y, std::int64_t count);

// Elements of 1, 2, 4 or 8 bytes: every element twice, and y[i] = x[low[i]].
void double_elements(const void* x, void* y, std::int64_t count, std::int64_t bytes);
void pick_elements(const void* x, const std::int32_t* low, void* y, std::int64_t count, std::int64_t bytes);

}  // namespace tessera::backends::cpu
