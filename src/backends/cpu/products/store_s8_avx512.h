// Stores the sums of a product of bytes, for files compiled with AVX-512.
#pragma once

#include <immintrin.h>

#include "backends/cpu/products/windows/indirect_product_s8.h"

namespace tessera::backends::cpu {
namespace {

// The terms for one vector of columns, held in registers: stores of bytes may alias any memory, so the terms would be
// read again after each store.
struct Column {
  __m512 factor, offset, low, high;
  __m512i zero;
};

// The unbounded sum of a bounded result and bytes of the addend (S8Sum).
inline __m512 total_of(const S8Sum& sum, __m512 bounded, __m128i bytes) {
  const __m512 other = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), _mm512_set1_ps(sum.other),
                                       _mm512_set1_ps(sum.shift));
  return _mm512_fmadd_ps(_mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                         _mm512_set1_ps(sum.own), other);
}

// Stores one vector of sums. `whole`: all lanes, otherwise those of `mask`; masked stores are slow.
template <bool whole, bool adds>
inline void store(const IndirectProductS8& product, const Column& column, __m512i sum, std::int64_t at,
                  __mmask16 mask) {
  if (product.sums != nullptr) return _mm512_mask_storeu_epi32(product.sums + at, mask, sum);
  const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), column.factor, column.offset);
  // min and max return their second operand if either is NaN, so NaN stays NaN.
  if (product.real != nullptr) {
    const __m512 bounded = _mm512_min_ps(column.high, _mm512_max_ps(column.low, value));
    if constexpr (whole) return _mm512_storeu_ps(product.real + at, bounded);
    else return _mm512_mask_storeu_ps(product.real + at, mask, bounded);
  }
  const __m512 bounded = _mm512_min_ps(_mm512_max_ps(value, column.low), column.high);
  __m512i q;
  if constexpr (adds) {
    const __m512 total = total_of(product.sum, bounded,
                                  whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(product.addend + at))
                                        : _mm_maskz_loadu_epi8(mask, product.addend + at));
    q = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(total, _mm512_set1_ps(product.sum.low)),
                                                          _mm512_set1_ps(product.sum.high))),
                         _mm512_set1_epi32(product.sum.zero));
  } else {
    q = _mm512_add_epi32(_mm512_cvtps_epi32(bounded), column.zero);
  }
  const __m128i bytes = _mm512_cvtepi32_epi8(q);
  if constexpr (whole) _mm_storeu_si128(reinterpret_cast<__m128i*>(product.quantised + at), bytes);
  else _mm_mask_storeu_epi8(product.quantised + at, mask, bytes);
}

template <bool whole, bool adds, int rows, int vectors>
inline void store_tile(const IndirectProductS8& given, const __m512i (&sum)[rows][vectors], std::int64_t first_row,
                       std::int64_t first_column, std::int64_t columns) {
  const IndirectProductS8 product = given;
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) {
    const std::int64_t first = first_column + j * kS8Lanes, left_over = columns - j * kS8Lanes;
    if (left_over <= 0) continue;
    Column column{};
    if (product.sums == nullptr) {
      column = {_mm512_loadu_ps(product.factor + first), _mm512_loadu_ps(product.offset + first),
                _mm512_set1_ps(product.low), _mm512_set1_ps(product.high), _mm512_set1_epi32(product.zero)};
    }
    const auto mask = static_cast<__mmask16>(left_over >= kS8Lanes ? 0xFFFF : (1 << left_over) - 1);
    if (product.window_sums != nullptr) {
      // A zero point of the weights adds a multiple of the sum of each window.
      const __m512i shift = _mm512_loadu_si512(product.shift + first);
#pragma GCC unroll 12
      for (int i = 0; i < rows; ++i) {
        const __m512i window = _mm512_set1_epi32(product.window_sums[first_row + i]);
        store<whole, adds>(product, column, _mm512_add_epi32(sum[i][j], _mm512_mullo_epi32(window, shift)),
                           (first_row + i) * product.ldc + first, mask);
      }
      continue;
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
      store<whole, adds>(product, column, sum[i][j], (first_row + i) * product.ldc + first, mask);
  }
}

// Stores a whole tile of unsigned bytes, two rows at a time. Packing saturates, so values need only an upper bound that
// keeps them within int32; NaN becomes the least value.
template <bool adds, int rows>
inline void store_packed(const IndirectProductS8& given, const __m512i (&sum)[rows][2], std::int64_t first_row,
                         std::int64_t first_column) {
  const IndirectProductS8 product = given;
  const __m512 low = _mm512_set1_ps(product.low), high = _mm512_set1_ps(product.high),
               sum_high = _mm512_set1_ps(product.sum.high);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(adds ? product.sum.zero : product.zero));
  const __m512i in_rows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512 factor[2] = {_mm512_loadu_ps(product.factor + first_column),
                            _mm512_loadu_ps(product.factor + first_column + kS8Lanes)};
  const __m512 offset[2] = {_mm512_loadu_ps(product.offset + first_column),
                            _mm512_loadu_ps(product.offset + first_column + kS8Lanes)};
  std::uint8_t* to = product.quantised + first_row * product.ldc + first_column;
#pragma GCC unroll 6
  for (int i = 0; i < rows; i += 2) {
    __m512i words[2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const int row = i + r < rows ? i + r : i;
      __m512i q[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[row][j]), factor[j], offset[j]);
        if constexpr (adds) {
          const std::uint8_t* z = product.addend + (first_row + row) * product.ldc + first_column + j * kS8Lanes;
          value = total_of(product.sum, _mm512_min_ps(_mm512_max_ps(value, low), high),
                           _mm_loadu_si128(reinterpret_cast<const __m128i*>(z)));
        }
        q[j] = _mm512_cvtps_epi32(_mm512_min_ps(adds ? sum_high : high, value));
      }
      words[r] = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    }
    const __m512i bytes = _mm512_permutexvar_epi32(in_rows, _mm512_packus_epi16(words[0], words[1]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * product.ldc), _mm512_castsi512_si256(bytes));
    if (i + 1 < rows)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 1) * product.ldc), _mm512_extracti64x4_epi64(bytes, 1));
  }
}

// Stores the sums of some rows, from `first_row` on, and of some vectors, from `column` on.
template <int rows, int vectors>
inline void store_sums(const IndirectProductS8& product, const __m512i (&sum)[rows][vectors], std::int64_t first_row,
                       std::int64_t column) {
  const std::int64_t columns = product.columns - column;
  const bool whole = columns >= vectors * kS8Lanes;
  if constexpr (vectors == 2) {
    const bool saturates =
        product.quantised != nullptr && product.low == static_cast<float>(-product.zero);  // of unsigned bytes
    if (whole && product.addend != nullptr)
      return store_packed<true>(product, sum, first_row, column);  // sums with bytes of an addend are unsigned
    if (whole && saturates) return store_packed<false>(product, sum, first_row, column);
  }
  if (product.addend != nullptr)
    whole ? store_tile<true, true>(product, sum, first_row, column, columns)
          : store_tile<false, true>(product, sum, first_row, column, columns);
  else
    whole ? store_tile<true, false>(product, sum, first_row, column, columns)
          : store_tile<false, false>(product, sum, first_row, column, columns);
}

}  // namespace
}  // namespace tessera::backends::cpu
