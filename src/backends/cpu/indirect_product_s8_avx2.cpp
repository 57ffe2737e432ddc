// Compiled with AVX2. Bytes are widened to 16 bits first: the 8-bit multiply-add of AVX2 saturates.
#include "backends/cpu/indirect_product_s8.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

// Two rows, or one, times sixteen columns of a panel that is `width` wide; `right`, `start` and `sums` point at the first of them. Sums of neighbouring
// rows start `start_stride` apart.
template <int rows>
void multiply_rows(const IndirectProductS8& product, std::int64_t row, const std::int8_t* right, std::int64_t width, const std::int32_t* start, std::int64_t start_stride, std::int32_t* sums) {
  __m256i sum[rows][4];
#pragma GCC unroll 2
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[i][j] = _mm256_setzero_si256();
  }
  for (std::int64_t s = 0; s < product.segments; ++s) {
    const std::uint8_t* left[rows];
#pragma GCC unroll 2
    for (int i = 0; i < rows; ++i) left[i] = product.left[s * product.tile_rows + row + i] + product.skipped;
    for (std::int64_t group = 0; group < product.groups; ++group, right += width * kS8Group) {
      __m256i a[rows];
#pragma GCC unroll 2
      for (int i = 0; i < rows; ++i) {
        std::int32_t bytes;
        __builtin_memcpy(&bytes, left[i] + group * kS8Group, 4);
        a[i] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(bytes)));
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(right + 16 * j)));
#pragma GCC unroll 2
        for (int i = 0; i < rows; ++i) sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(a[i], b));
      }
    }
  }
  // Each column has two neighbouring partial sums.
#pragma GCC unroll 2
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 4; j += 2) {
      const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[i][j], sum[i][j + 1]), 0xD8);
      const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(start + (row + i) * start_stride + 4 * j));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + (row + i) * kS8Columns + 4 * j), _mm256_add_epi32(pairs, first));
    }
  }
}

}  // namespace

void multiply_s8_avx2(const IndirectProductS8& product) {
  const std::int8_t* right = product.right;
  std::int32_t here[kS8Rows * kS8Columns];
  for (std::int64_t column = 0; column < product.columns; column += kS8Columns) {
    const std::int64_t left_over = product.columns - column, columns = left_over < kS8Columns ? left_over : kS8Columns;
    const std::int64_t width = (columns + kS8Lanes - 1) / kS8Lanes * kS8Lanes;
    std::int32_t* partial = product.partial == nullptr ? nullptr : product.partial + column * product.tile_rows;
    std::int32_t* sums = product.ends ? here : partial;
    const std::int32_t* start = product.begins ? product.start + column : partial;
    const std::int64_t start_stride = product.begins ? 0 : kS8Columns;
    const std::int8_t* part = right + product.first_group * width * kS8Group;
    for (std::int64_t lane = 0; lane < width; lane += kS8Lanes) {
      std::int64_t row = 0;
      for (; row + 2 <= product.rows; row += 2) multiply_rows<2>(product, row, part + lane * kS8Group, width, start + lane, start_stride, sums + lane);
      if (row < product.rows) multiply_rows<1>(product, row, part + lane * kS8Group, width, start + lane, start_stride, sums + lane);
    }
    if (product.ends) store_s8_sums(product, sums, column, columns);
    right += product.panel_groups * width * kS8Group;
  }
}

}  // namespace tessera::backends::cpu
#endif
