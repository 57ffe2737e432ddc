// Compiled with AVX2 and FMA. The 8-bit multiply-add of AVX2 saturates, so it is used only for weights with which it
// cannot (s8_pairs_fit). Otherwise bytes are first widened to 16 bits, the even ones of each group separately from the
// odd ones, so that no sums across lanes are needed.
#include "backends/cpu/products/windows/indirect_product_s8.h"

#if defined(__AVX2__)
#include "backends/cpu/products/store_s8_avx2.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kTileRowsAvx2 = 4;  // their sums of sixteen columns stay in registers

// sum += one group of each row times the group of sixteen columns.
template <bool pairs_fit, int rows>
inline void add_products(const std::uint8_t* const (&row)[rows], std::int64_t at, const std::int8_t* right,
                         __m256i (&sum)[rows][2]) {
  __m256i b[2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) b[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right + j * 32));
  [[maybe_unused]] __m256i even[2], odd[2];
  if constexpr (!pairs_fit) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      even[j] = _mm256_srai_epi16(_mm256_slli_epi16(b[j], 8), 8);
      odd[j] = _mm256_srai_epi16(b[j], 8);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
    std::int32_t bytes;
    __builtin_memcpy(&bytes, row[i] + at, 4);
    const __m256i a = _mm256_set1_epi32(bytes);
    if constexpr (pairs_fit) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j)
        sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b[j]), _mm256_set1_epi16(1)));
    } else {
      const __m256i a_even = _mm256_and_si256(a, _mm256_set1_epi16(0xFF)), a_odd = _mm256_srli_epi16(a, 8);
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(a_even, even[j]));
        sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(a_odd, odd[j]));
      }
    }
  }
}

// Multiplies rows, from `first` on, by sixteen columns, from `column` of the whole on, of a panel with `width` columns;
// `right` points at the first of these columns.
template <bool pairs_fit, int rows>
void multiply_tile(const IndirectProductS8& product, std::int64_t first, const std::int8_t* right, std::int64_t width,
                   std::int64_t column, std::int32_t* partial) {
  __m256i sum[rows][2];
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
    const std::int32_t* start = product.begins ? product.start + column : partial + (first + i) * kS8Columns;
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) sum[i][j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(start + j * 8));
  }
  const std::uint8_t* const* left = product.left + first;
  const std::int64_t step = width * kS8Group;
  for (std::int64_t s = product.segments; s > 0; --s, left += product.tile_rows) {
    const std::uint8_t* row[rows];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) row[i] = left[i] + product.skipped;
    std::int64_t k = 0;
    for (; k + 1 < product.groups; k += 2, right += 2 * step) {
      add_products<pairs_fit>(row, k * kS8Group, right, sum);
      add_products<pairs_fit>(row, (k + 1) * kS8Group, right + step, sum);
    }
    if (k < product.groups) {
      add_products<pairs_fit>(row, k * kS8Group, right, sum);
      right += step;
    }
  }
  if (product.ends) return store_sums(product, sum, first, column);
#pragma GCC unroll 4
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(partial + (first + i) * kS8Columns + j * 8), sum[i][j]);
  }
}

template <bool pairs_fit>
void multiply_rows(const IndirectProductS8& product, const std::int8_t* right, std::int64_t width, std::int64_t column,
                   std::int32_t* partial) {
  std::int64_t row = 0;
  for (; row + kTileRowsAvx2 <= product.rows; row += kTileRowsAvx2)
    multiply_tile<pairs_fit, kTileRowsAvx2>(product, row, right, width, column, partial);
  switch (product.rows - row) {
    case 3:
      return multiply_tile<pairs_fit, 3>(product, row, right, width, column, partial);
    case 2:
      return multiply_tile<pairs_fit, 2>(product, row, right, width, column, partial);
    case 1:
      return multiply_tile<pairs_fit, 1>(product, row, right, width, column, partial);
    default:
      return;
  }
}

}  // namespace

void multiply_s8_avx2(const IndirectProductS8& product) {
  const std::int8_t* right = product.right;
  for (std::int64_t first = 0; first < product.columns; first += kS8Columns) {
    const std::int64_t width = product.columns - first > kS8Lanes ? kS8Columns : kS8Lanes;
    std::int32_t* partial = product.partial == nullptr ? nullptr : product.partial + first * product.tile_rows;
    const std::int8_t* part = right + product.first_group * width * kS8Group;
    for (std::int64_t lane = 0; lane < width; lane += kS8Lanes) {
      std::int32_t* sums = partial == nullptr ? nullptr : partial + lane;
      if (product.pairs_fit) multiply_rows<true>(product, part + lane * kS8Group, width, first + lane, sums);
      else multiply_rows<false>(product, part + lane * kS8Group, width, first + lane, sums);
    }
    right += product.panel_groups * width * kS8Group;
  }
}

}  // namespace tessera::backends::cpu
#endif
