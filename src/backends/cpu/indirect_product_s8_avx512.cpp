// Compiled with AVX-512 VNNI: dot products of four bytes, without saturation.
#include "backends/cpu/indirect_product_s8.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

// What becomes of a vector of sums, in registers: stores of bytes could mean any memory, so nothing is read again behind them.
struct Column {
  __m512 factor, offset, low, high;
  __m512i zero;
};

// What the sum of a bounded result and of other bytes is before it is bounded.
inline __m512 total_of(const S8Sum& sum, __m512 bounded, __m128i bytes) {
  const __m512 other = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), _mm512_set1_ps(sum.other), _mm512_set1_ps(sum.shift));
  return _mm512_fmadd_ps(_mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), _mm512_set1_ps(sum.own), other);
}

// One vector of sums to its place; `whole`: all of its lanes, otherwise those of `mask`. Masked stores are slow.
template <bool whole, bool adds>
inline void store(const IndirectProductS8& product, const Column& column, __m512i sum, std::int64_t at, __mmask16 mask) {
  if (product.sums != nullptr) return _mm512_mask_storeu_epi32(product.sums + at, mask, sum);
  const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), column.factor, column.offset);
  // Of a NaN and a number these instructions give their second operand.
  if (product.real != nullptr) {
    const __m512 bounded = _mm512_min_ps(column.high, _mm512_max_ps(column.low, value));
    if constexpr (whole) return _mm512_storeu_ps(product.real + at, bounded);
    else return _mm512_mask_storeu_ps(product.real + at, mask, bounded);
  }
  const __m512 bounded = _mm512_min_ps(_mm512_max_ps(value, column.low), column.high);
  __m512i q;
  if constexpr (adds) {
    const __m512 total = total_of(product.sum, bounded, whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(product.addend + at)) : _mm_maskz_loadu_epi8(mask, product.addend + at));
    q = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(total, _mm512_set1_ps(product.sum.low)), _mm512_set1_ps(product.sum.high))), _mm512_set1_epi32(product.sum.zero));
  } else {
    q = _mm512_add_epi32(_mm512_cvtps_epi32(bounded), column.zero);
  }
  const __m128i bytes = _mm512_cvtepi32_epi8(q);
  if constexpr (whole) _mm_storeu_si128(reinterpret_cast<__m128i*>(product.quantised + at), bytes);
  else _mm_mask_storeu_epi8(product.quantised + at, mask, bytes);
}

template <bool whole, bool adds, int rows, int vectors>
inline void store_tile(const IndirectProductS8& given, const __m512i (&sum)[rows][vectors], std::int64_t first_column, std::int64_t columns) {
  const IndirectProductS8 product = given;
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) {
    const std::int64_t first = first_column + j * kS8Lanes, left_over = columns - j * kS8Lanes;
    if (left_over <= 0) continue;
    Column column{};
    if (product.sums == nullptr) {
      column = {_mm512_loadu_ps(product.factor + first), _mm512_loadu_ps(product.offset + first), _mm512_set1_ps(product.low), _mm512_set1_ps(product.high), _mm512_set1_epi32(product.zero)};
    }
    const auto mask = static_cast<__mmask16>(left_over >= kS8Lanes ? 0xFFFF : (1 << left_over) - 1);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) store<whole, adds>(product, column, sum[i][j], i * product.ldc + first, mask);
  }
}

// A whole tile of unsigned bytes, two rows at a time. Packing saturates: numbers need an upper bound only, so that they are integers of
// 32 bits, and one that is no number becomes the least.
template <bool adds, int rows>
inline void store_packed(const IndirectProductS8& given, const __m512i (&sum)[rows][2], std::int64_t first_column) {
  const IndirectProductS8 product = given;
  const __m512 low = _mm512_set1_ps(product.low), high = _mm512_set1_ps(product.high), sum_high = _mm512_set1_ps(product.sum.high);
  const __m512i zero = _mm512_set1_epi16(static_cast<short>(adds ? product.sum.zero : product.zero));
  const __m512i in_rows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512 factor[2] = {_mm512_loadu_ps(product.factor + first_column), _mm512_loadu_ps(product.factor + first_column + kS8Lanes)};
  const __m512 offset[2] = {_mm512_loadu_ps(product.offset + first_column), _mm512_loadu_ps(product.offset + first_column + kS8Lanes)};
  std::uint8_t* to = product.quantised + first_column;
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
          const std::uint8_t* z = product.addend + row * product.ldc + first_column + j * kS8Lanes;
          value = total_of(product.sum, _mm512_min_ps(_mm512_max_ps(value, low), high), _mm_loadu_si128(reinterpret_cast<const __m128i*>(z)));
        }
        q[j] = _mm512_cvtps_epi32(_mm512_min_ps(adds ? sum_high : high, value));
      }
      words[r] = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    }
    const __m512i bytes = _mm512_permutexvar_epi32(in_rows, _mm512_packus_epi16(words[0], words[1]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * product.ldc), _mm512_castsi512_si256(bytes));
    if (i + 1 < rows) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i + 1) * product.ldc), _mm512_extracti64x4_epi64(bytes, 1));
  }
}

// sum += A B over the groups [k, k + depth) of each row: two at a time, since pointers to twelve rows do not quite fit the registers. What
// the loop around them costs takes turns of the ports that multiply: it does four at a time.
template <int rows, int vectors, int depth>
inline void add_products(const std::uint8_t* const (&row)[rows], std::int64_t k, const std::int8_t* right, __m512i (&sum)[rows][vectors]) {
  __m512i b[depth][vectors];
#pragma GCC unroll 2
  for (int s = 0; s < depth; ++s) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) b[s][j] = _mm512_loadu_si512(right + (s * vectors + j) * 64);
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int s = 0; s < depth; ++s) {
      std::int32_t bytes;
      __builtin_memcpy(&bytes, row[i] + (k + s) * kS8Group, 4);
      const __m512i a = _mm512_set1_epi32(bytes);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], a, b[s][j]);
    }
  }
}

// Weights of later products on their way to the second-level cache.
struct Ahead {
  const std::int8_t *next, *last;

  inline void fetch() {
    if (next >= last) return;
    _mm_prefetch(next, _MM_HINT_T1);
    _mm_prefetch(next + 64, _MM_HINT_T1);
    next += 128;
  }
};

template <int rows, int vectors>
void multiply_tile(const IndirectProductS8& product, const std::int8_t* right, std::int64_t column, Ahead& weights) {
  Ahead ahead = weights;
  __m512i sum[rows][vectors];
  std::int32_t* partial = product.partial == nullptr ? nullptr : product.partial + column * kS8Rows;
#pragma GCC unroll 2
  for (int j = 0; j < vectors; ++j) {
    const __m512i start = _mm512_loadu_si512(product.start + column + j * kS8Lanes);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) sum[i][j] = product.begins ? start : _mm512_load_si512(partial + i * kS8Columns + j * kS8Lanes);
  }
  const std::uint8_t* const* left = product.left;
  for (std::int64_t s = product.segments; s > 0; --s, left += kS8Rows) {
    const std::uint8_t* row[rows];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) row[i] = left[i] + product.skipped;
    std::int64_t k = 0;
    for (; k + 3 < product.groups; k += 4, right += 4 * vectors * 64) {
      add_products<rows, vectors, 2>(row, k, right, sum);
      add_products<rows, vectors, 2>(row, k + 2, right + 2 * vectors * 64, sum);
      ahead.fetch();
    }
    if (k + 1 < product.groups) {
      add_products<rows, vectors, 2>(row, k, right, sum);
      k += 2;
      right += 2 * vectors * 64;
    }
    if (k < product.groups) {
      add_products<rows, vectors, 1>(row, k, right, sum);
      right += vectors * 64;
    }
  }
  weights = ahead;
  if (!product.ends) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) _mm512_store_si512(partial + i * kS8Columns + j * kS8Lanes, sum[i][j]);
    }
    return;
  }
  const std::int64_t columns = product.columns - column;
  const bool whole = columns >= vectors * kS8Lanes;
  if constexpr (vectors == 2) {
    const bool saturates = product.quantised != nullptr && product.low == static_cast<float>(-product.zero);  // at the least unsigned byte
    if (whole && product.addend != nullptr) return store_packed<true>(product, sum, column);  // bytes of sums are unsigned
    if (whole && saturates) return store_packed<false>(product, sum, column);
  }
  if (product.addend != nullptr) whole ? store_tile<true, true>(product, sum, column, columns) : store_tile<false, true>(product, sum, column, columns);
  else whole ? store_tile<true, false>(product, sum, column, columns) : store_tile<false, false>(product, sum, column, columns);
}

template <int rows>
void multiply_any(const IndirectProductS8& product) {
  if (product.rows != rows) {
    if constexpr (rows > 1) multiply_any<rows - 1>(product);
    return;
  }
  const std::int8_t* right = product.right;
  Ahead ahead{product.ahead, product.ahead + product.ahead_bytes};
  const std::int64_t skipped = product.first_group * kS8Group;  // of each column of a panel
  for (std::int64_t column = 0; column < product.columns; column += kS8Columns, right += product.panel_groups * kS8Group * kS8Columns) {
    if (product.columns - column <= kS8Lanes) multiply_tile<rows, 1>(product, right + skipped * kS8Lanes, column, ahead);
    else multiply_tile<rows, 2>(product, right + skipped * kS8Columns, column, ahead);
  }
}

}  // namespace

void multiply_s8_vnni(const IndirectProductS8& product) { multiply_any<kS8Rows>(product); }

}  // namespace tessera::backends::cpu
#endif
