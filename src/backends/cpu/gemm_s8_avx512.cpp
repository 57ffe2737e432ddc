// Compiled with AVX-512 VNNI: dot products of four bytes, without saturation.
#include "backends/cpu/gemm_s8_panel.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

template <int rows>
void multiply_rows(const S8Panel& panel) {
  __m512i sum[rows][2];
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = _mm512_setzero_si512();
  const std::uint8_t* left = panel.left;
  const std::int8_t* right = panel.right;
  for (std::int64_t group = 0; group < panel.groups; ++group) {
    const __m512i b0 = _mm512_loadu_si512(right), b1 = _mm512_loadu_si512(right + 64);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      std::int32_t bytes;
      __builtin_memcpy(&bytes, left + i * kS8Group, 4);
      const __m512i a = _mm512_set1_epi32(bytes);
      sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], a, b0);
      sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], a, b1);
    }
    left += rows * kS8Group;
    right += kS8Columns * kS8Group;
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
    _mm512_storeu_si512(panel.sums + i * kS8Columns, sum[i][0]);
    _mm512_storeu_si512(panel.sums + i * kS8Columns + 16, sum[i][1]);
  }
}

}  // namespace

void multiply_s8_vnni(const S8Panel& panel) {
  switch (panel.rows) {
    case 1:
      return multiply_rows<1>(panel);
    case 2:
      return multiply_rows<2>(panel);
    case 3:
      return multiply_rows<3>(panel);
    case 4:
      return multiply_rows<4>(panel);
    case 5:
      return multiply_rows<5>(panel);
    case 6:
      return multiply_rows<6>(panel);
    case 7:
      return multiply_rows<7>(panel);
    case 8:
      return multiply_rows<8>(panel);
    case 9:
      return multiply_rows<9>(panel);
    case 10:
      return multiply_rows<10>(panel);
    case 11:
      return multiply_rows<11>(panel);
    case 12:
      return multiply_rows<12>(panel);
    default:
      return;
  }
}

}  // namespace tessera::backends::cpu
#endif
