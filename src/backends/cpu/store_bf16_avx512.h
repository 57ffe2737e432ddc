// Where the sums of a product of bfloat16 numbers go, for files compiled with AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include "backends/cpu/indirect_product_bf16.h"

namespace tessera::backends::cpu {
namespace {

inline __m512 widen(__m256i numbers) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16)); }

template <bool whole, int rows, int vectors>
inline void store_tile(const IndirectProductBf16& product, const __m512 (&sum)[rows][vectors], std::int64_t first_row, std::int64_t first_column, std::int64_t columns) {
  const __m512 low = _mm512_set1_ps(product.low), high = _mm512_set1_ps(product.high);
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const std::int64_t first = first_column + j * IndirectProductBf16::kLanes, left_over = columns - j * IndirectProductBf16::kLanes;
    if (left_over <= 0) continue;
    const auto mask = static_cast<__mmask16>(left_over >= IndirectProductBf16::kLanes ? 0xFFFF : (1 << left_over) - 1);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      __m512 value = sum[i][j];
      const std::int64_t at = (first_row + i) * product.ldc + first;
      if (product.addend != nullptr) {
        value = _mm512_add_ps(value, product.rounded_addend ? widen(_mm256_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(product.addend) + at))
                                                            : _mm512_maskz_loadu_ps(mask, static_cast<const float*>(product.addend) + at));
      }
      value = _mm512_min_ps(high, _mm512_max_ps(low, value));  // of a NaN and a number the second operand, so NaN stays
      if (product.rounded_c) {
        std::uint16_t* to = static_cast<std::uint16_t*>(product.c) + at;
        const auto numbers = (__m256i)_mm512_cvtneps_pbh(value);
        if constexpr (whole) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), numbers);
        else _mm256_mask_storeu_epi16(to, mask, numbers);
      } else {
        float* to = static_cast<float*>(product.c) + at;
        if constexpr (whole) _mm512_storeu_ps(to, value);
        else _mm512_mask_storeu_ps(to, mask, value);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu
