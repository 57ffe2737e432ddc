// Where the sums of a product of bfloat16 numbers go, for files compiled with AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include "backends/cpu/indirect_product_bf16.h"

namespace tessera::backends::cpu {
namespace {

inline __m512 widen(__m256i numbers) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16)); }

// Of a vector that begins where so many columns are left.
inline __mmask16 columns_mask(std::int64_t columns) {
  return static_cast<__mmask16>(columns >= IndirectProductBf16::kLanes ? 0xFFFF : columns <= 0 ? 0 : (1 << columns) - 1);
}

template <int rows, int vectors>
inline void add_addend(const IndirectProductBf16& product, __m512 (&sum)[rows][vectors], std::int64_t first_row, std::int64_t first_column, std::int64_t columns) {
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) {
    const __mmask16 mask = columns_mask(columns - j * IndirectProductBf16::kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const std::int64_t at = (first_row + i) * product.ldc + first_column + j * IndirectProductBf16::kLanes;
      sum[i][j] = _mm512_add_ps(sum[i][j], product.rounded_addend ? widen(_mm256_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(product.addend) + at))
                                                                  : _mm512_maskz_loadu_ps(mask, static_cast<const float*>(product.addend) + at));
    }
  }
}

// Adds the addend, clamps and stores; sums are no more afterwards. What is asked for is asked once a tile: of shallow products this is much of the work.
template <bool whole, int rows, int vectors>
inline void store_tile(const IndirectProductBf16& product, __m512 (&sum)[rows][vectors], std::int64_t first_row, std::int64_t first_column, std::int64_t columns) {
  if (product.addend != nullptr) add_addend(product, sum, first_row, first_column, columns);
  const __m512 low = _mm512_set1_ps(product.low), high = _mm512_set1_ps(product.high);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_min_ps(high, _mm512_max_ps(low, sum[i][j]));  // of a NaN and a number the second operand, so NaN stays
  }
  const std::int64_t first = first_row * product.ldc + first_column;
  if (!product.rounded_c) {
    float* to = static_cast<float*>(product.c) + first;
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i, to += product.ldc) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        if constexpr (whole) _mm512_storeu_ps(to + j * IndirectProductBf16::kLanes, sum[i][j]);
        else _mm512_mask_storeu_ps(to + j * IndirectProductBf16::kLanes, columns_mask(columns - j * IndirectProductBf16::kLanes), sum[i][j]);
      }
    }
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(product.c) + first;
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i, to += product.ldc) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j += 2) {
      constexpr bool kSingle = vectors % 2 != 0;
      if constexpr (whole && !kSingle) {
        _mm512_storeu_si512(to + j * IndirectProductBf16::kLanes, (__m512i)_mm512_cvtne2ps_pbh(sum[i][j + 1], sum[i][j]));
      } else {
#pragma GCC unroll 2
        for (int k = j; k < j + 2 && k < vectors; ++k) {
          const auto numbers = (__m256i)_mm512_cvtneps_pbh(sum[i][k]);
          if constexpr (whole) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k * IndirectProductBf16::kLanes), numbers);
          else _mm256_mask_storeu_epi16(to + k * IndirectProductBf16::kLanes, columns_mask(columns - k * IndirectProductBf16::kLanes), numbers);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu
