// Stores the sums of a product of bytes, for files compiled with AVX2 and FMA.
#pragma once

#include <immintrin.h>

#include "backends/cpu/products/windows/indirect_product_s8.h"

namespace tessera::backends::cpu {
namespace {

inline __m256 scaled(__m256i sum, __m256 factor, __m256 offset) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), factor, offset);
}

// The sums plus the share of the weights' zero point: the sum of the window times the shift of each column.
inline __m256i shifted_sums(__m256i sum, __m256i window, const std::int32_t* shift) {
  return _mm256_add_epi32(sum, _mm256_mullo_epi32(window, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(shift))));
}

// The unbounded sum of a bounded result and eight bytes of the addend (S8Sum).
inline __m256 total_of(const S8Sum& sum, __m256 bounded, const std::uint8_t* bytes) {
  const __m256 given =
      _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
  const __m256 other = _mm256_fmadd_ps(given, _mm256_set1_ps(sum.other), _mm256_set1_ps(sum.shift));
  return _mm256_fmadd_ps(_mm256_round_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                         _mm256_set1_ps(sum.own), other);
}

// A mask of the first `count` lanes of a vector.
inline __m256i first_lanes(std::int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count < 8 ? count : 8)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Stores sixteen sums of a row, or the first `columns` of them, as integers or real numbers at `at`.
inline void store_wide(const IndirectProductS8& product, const __m256i (&sum)[2], std::int64_t at, std::int64_t column,
                       std::int64_t columns) {
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    const __m256i lanes = first_lanes(columns - j * 8);
    if (product.sums != nullptr) {
      _mm256_maskstore_epi32(product.sums + at + j * 8, lanes, sum[j]);
      continue;
    }
    const __m256 value = scaled(sum[j], _mm256_loadu_ps(product.factor + column + j * 8),
                                _mm256_loadu_ps(product.offset + column + j * 8));
    // min and max return their second operand if either is NaN, so NaN stays NaN.
    _mm256_maskstore_ps(product.real + at + j * 8, lanes,
                        _mm256_min_ps(_mm256_set1_ps(product.high), _mm256_max_ps(_mm256_set1_ps(product.low), value)));
  }
}

// Sixteen sums of a row as signed or unsigned bytes.
inline __m128i bytes_of(const IndirectProductS8& product, const __m256i (&sum)[2], const std::uint8_t* addend,
                        std::int64_t column) {
  __m256i q[2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    __m256 value = scaled(sum[j], _mm256_loadu_ps(product.factor + column + j * 8),
                          _mm256_loadu_ps(product.offset + column + j * 8));
    value = _mm256_min_ps(_mm256_max_ps(value, _mm256_set1_ps(product.low)), _mm256_set1_ps(product.high));
    std::int32_t zero = product.zero;
    if (addend != nullptr) {
      value =
          _mm256_min_ps(_mm256_max_ps(total_of(product.sum, value, addend + j * 8), _mm256_set1_ps(product.sum.low)),
                        _mm256_set1_ps(product.sum.high));
      zero = product.sum.zero;
    }
    q[j] =
        _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(value), _mm256_set1_epi32(zero)), _mm256_set1_epi32(0xFF));
  }
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(q[0], q[1]), 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

// Stores whole rows of sixteen unsigned bytes, two rows at a time. Packing saturates, so values need only an upper
// bound that keeps them within int32; NaN becomes the least value.
template <bool adds, int rows>
inline void store_packed(const IndirectProductS8& given, const __m256i (&sum)[rows][2], std::int64_t row,
                         std::int64_t column) {
  const IndirectProductS8 product = given;  // a copy: stores of bytes may alias the original
  const __m256 low = _mm256_set1_ps(product.low), high = _mm256_set1_ps(product.high),
               sum_high = _mm256_set1_ps(product.sum.high);
  const __m256i zero = _mm256_set1_epi16(static_cast<short>(adds ? product.sum.zero : product.zero));
  const __m256 factor[2] = {_mm256_loadu_ps(product.factor + column), _mm256_loadu_ps(product.factor + column + 8)};
  const __m256 offset[2] = {_mm256_loadu_ps(product.offset + column), _mm256_loadu_ps(product.offset + column + 8)};
#pragma GCC unroll 4
  for (int i = 0; i < rows; i += 2) {
    __m256i words[2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const int from = i + r < rows ? i + r : i;
      __m256i q[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        __m256 value = scaled(sum[from][j], factor[j], offset[j]);
        if constexpr (adds)
          value = total_of(product.sum, _mm256_min_ps(_mm256_max_ps(value, low), high),
                           product.addend + (row + from) * product.ldc + column + j * 8);
        q[j] = _mm256_cvtps_epi32(_mm256_min_ps(adds ? sum_high : high, value));
      }
      words[r] = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zero);
    }
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    std::uint8_t* to = product.quantised + (row + i) * product.ldc + column;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
    if (i + 1 < rows)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + product.ldc), _mm256_extracti128_si256(bytes, 1));
  }
}

// Stores the sums of some rows, from `row` on, and of up to sixteen columns, from `column` on.
template <int rows>
inline void store_sums(const IndirectProductS8& product, const __m256i (&sum)[rows][2], std::int64_t row,
                       std::int64_t column) {
  const std::int64_t left_over = product.columns - column, columns = left_over < kS8Lanes ? left_over : kS8Lanes;
  if (product.quantised != nullptr && columns == kS8Lanes) {
    if (product.addend != nullptr) return store_packed<true>(product, sum, row, column);  // unsigned bytes
    if (product.low == static_cast<float>(-product.zero))
      return store_packed<false>(product, sum, row, column);  // if the lower bound is that of unsigned bytes
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
    const std::int64_t at = (row + i) * product.ldc + column;
    if (product.quantised == nullptr) {
      if (product.window_sums == nullptr) {
        store_wide(product, sum[i], at, column, columns);
      } else {
        const __m256i window = _mm256_set1_epi32(product.window_sums[row + i]);
        const __m256i shifted[2] = {shifted_sums(sum[i][0], window, product.shift + column),
                                    shifted_sums(sum[i][1], window, product.shift + column + 8)};
        store_wide(product, shifted, at, column, columns);
      }
      continue;
    }
    alignas(16) std::uint8_t given[kS8Lanes], made[kS8Lanes];
    if (product.addend != nullptr) __builtin_memcpy(given, product.addend + at, static_cast<std::size_t>(columns));
    _mm_store_si128(reinterpret_cast<__m128i*>(made),
                    bytes_of(product, sum[i], product.addend != nullptr ? given : nullptr, column));
    __builtin_memcpy(product.quantised + at, made, static_cast<std::size_t>(columns));
  }
}

}  // namespace
}  // namespace tessera::backends::cpu
