// Stores the sums of a product of bfloat16 numbers, for files compiled with AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include "backends/cpu/products/windows/indirect_product_bf16.h"

namespace tessera::backends::cpu {
namespace {

inline __m512 widen(__m256i numbers) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}

// The number of columns in the last vector of a tile: all lanes, half of them, or another number, which needs masked
// instructions that take several times as long.
enum class LastVector { whole, half, some };

inline __mmask16 columns_mask(std::int64_t columns) {
  return static_cast<__mmask16>((1 << columns) - 1);
}

template <LastVector last>
inline __m512 load_addend(const IndirectProductBf16& product, std::int64_t at, std::int64_t columns) {
  if (product.rounded_addend) {
    const auto* from = static_cast<const std::uint16_t*>(product.addend) + at;
    if constexpr (last == LastVector::whole) return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    if constexpr (last == LastVector::half)
      return widen(_mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    return widen(_mm256_maskz_loadu_epi16(columns_mask(columns), from));
  }
  const auto* from = static_cast<const float*>(product.addend) + at;
  if constexpr (last == LastVector::whole) return _mm512_loadu_ps(from);
  if constexpr (last == LastVector::half) return _mm512_zextps256_ps512(_mm256_loadu_ps(from));
  return _mm512_maskz_loadu_ps(columns_mask(columns), from);
}

template <LastVector last>
inline void store_floats(float* to, __m512 value, std::int64_t columns) {
  if constexpr (last == LastVector::whole) _mm512_storeu_ps(to, value);
  else if constexpr (last == LastVector::half) _mm256_storeu_ps(to, _mm512_castps512_ps256(value));
  else _mm512_mask_storeu_ps(to, columns_mask(columns), value);
}
template <LastVector last>
inline void store_rounded(std::uint16_t* to, __m512 value, std::int64_t columns) {
  const auto numbers = (__m256i)_mm512_cvtneps_pbh(value);
  if constexpr (last == LastVector::whole) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), numbers);
  else if constexpr (last == LastVector::half)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(numbers));
  else _mm256_mask_storeu_epi16(to, columns_mask(columns), numbers);
}

template <int rows, int vectors>
inline void activate(const IndirectProductBf16& product, __m512 (&sum)[rows][vectors]) {
  if (product.hard_swish) {
    const __m512 sixth = _mm512_set1_ps(1.0f / 6), half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1),
                 zero = _mm512_setzero_ps();
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j)
        sum[i][j] =
            _mm512_mul_ps(sum[i][j], _mm512_min_ps(one, _mm512_max_ps(zero, _mm512_fmadd_ps(sum[i][j], sixth, half))));
    }
    return;
  }
  const __m512 low = _mm512_set1_ps(product.low), high = _mm512_set1_ps(product.high);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      sum[i][j] = _mm512_min_ps(high, _mm512_max_ps(low, sum[i][j]));  // returns operand 2 if either is NaN: NaN stays
  }
}

// Finishes and stores a tile of sums. `columns`: the columns in the last vector.
template <LastVector last, int rows, int vectors>
inline void store_sums(const IndirectProductBf16& product, __m512 (&sum)[rows][vectors], std::int64_t first,
                       std::int64_t columns) {
  constexpr std::int64_t kLanes = IndirectProductBf16::kLanes;
  if (product.addend != nullptr) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j + 1 < vectors; ++j)
        sum[i][j] = _mm512_add_ps(
            sum[i][j], load_addend<LastVector::whole>(product, first + i * product.ldc + j * kLanes, kLanes));
      sum[i][vectors - 1] = _mm512_add_ps(
          sum[i][vectors - 1], load_addend<last>(product, first + i * product.ldc + (vectors - 1) * kLanes, columns));
    }
  }
  activate(product, sum);
  if (!product.rounded_c) {
    float* to = static_cast<float*>(product.c) + first;
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i, to += product.ldc) {
#pragma GCC unroll 4
      for (int j = 0; j + 1 < vectors; ++j) _mm512_storeu_ps(to + j * kLanes, sum[i][j]);
      store_floats<last>(to + (vectors - 1) * kLanes, sum[i][vectors - 1], columns);
    }
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(product.c) + first;
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i, to += product.ldc) {
    constexpr int pairs = last == LastVector::whole ? vectors / 2 : (vectors - 1) / 2;  // stored together
#pragma GCC unroll 4
    for (int j = 0; j < 2 * pairs; j += 2)
      _mm512_storeu_si512(to + j * kLanes, (__m512i)_mm512_cvtne2ps_pbh(sum[i][j + 1], sum[i][j]));
#pragma GCC unroll 4
    for (int j = 2 * pairs; j + 1 < vectors; ++j) store_rounded<LastVector::whole>(to + j * kLanes, sum[i][j], kLanes);
    if constexpr (2 * pairs < vectors) store_rounded<last>(to + (vectors - 1) * kLanes, sum[i][vectors - 1], columns);
  }
}

// Adds the addend to some rows of a tile, activates and stores them. The tile has as many vectors as `columns` need;
// `sum` is clobbered. Conditions are checked once per tile, not per vector: in shallow products they would be much of
// the work.
template <int rows, int vectors>
inline void store_tile(const IndirectProductBf16& product, __m512 (&sum)[rows][vectors], std::int64_t first_row,
                       std::int64_t first_column, std::int64_t columns) {
  const std::int64_t first = first_row * product.ldc + first_column,
                     last = columns - (vectors - 1) * IndirectProductBf16::kLanes;
  if (last >= IndirectProductBf16::kLanes)
    return store_sums<LastVector::whole>(product, sum, first, IndirectProductBf16::kLanes);
  if (last == IndirectProductBf16::kLanes / 2) return store_sums<LastVector::half>(product, sum, first, last);
  store_sums<LastVector::some>(product, sum, first, last);
}

}  // namespace
}  // namespace tessera::backends::cpu
