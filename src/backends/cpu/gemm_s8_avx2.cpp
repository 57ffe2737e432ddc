// Compiled with AVX2. Bytes are widened to 16 bits first: the 8-bit multiply-add of AVX2 saturates.
#include "backends/cpu/gemm_s8_panel.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

template <int rows>
void multiply_rows(const S8Panel& panel, std::int64_t row, std::int64_t column) {
  __m256i sum[rows][4];
#pragma GCC unroll 2
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[i][j] = _mm256_setzero_si256();
  }
  const std::uint8_t* left = panel.left + row * kS8Group;
  const std::int8_t* right = panel.right + column * kS8Group;
  for (std::int64_t group = 0; group < panel.groups; ++group) {
    __m256i a[rows];
#pragma GCC unroll 2
    for (int i = 0; i < rows; ++i) {
      std::int32_t bytes;
      __builtin_memcpy(&bytes, left + i * kS8Group, 4);
      a[i] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(bytes)));
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(right + 16 * j)));
#pragma GCC unroll 2
      for (int i = 0; i < rows; ++i) sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(a[i], b));
    }
    left += panel.rows * kS8Group;
    right += kS8Columns * kS8Group;
  }
  // Each column has two neighbouring partial sums.
#pragma GCC unroll 2
  for (int i = 0; i < rows; ++i) {
    std::int32_t* to = panel.sums + (row + i) * kS8Columns + column;
#pragma GCC unroll 2
    for (int j = 0; j < 4; j += 2) {
      const __m256i pairs = _mm256_hadd_epi32(sum[i][j], sum[i][j + 1]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4 * j), _mm256_permute4x64_epi64(pairs, 0xD8));
    }
  }
}

}  // namespace

void multiply_s8_avx2(const S8Panel& panel) {
  for (std::int64_t column = 0; column < kS8Columns; column += 16) {
    std::int64_t row = 0;
    for (; row + 2 <= panel.rows; row += 2) multiply_rows<2>(panel, row, column);
    if (row < panel.rows) multiply_rows<1>(panel, row, column);
  }
}

}  // namespace tessera::backends::cpu
#endif
