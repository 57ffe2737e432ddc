// Compiled with AVX-512, for CPUs without BF16.
#if defined(__AVX512BW__)
#include "backends/cpu/depthwise_bf16_avx512.h"

namespace tessera::backends::cpu {
namespace {

// To the nearest, ties to even; NaN stays NaN.
struct Arithmetic {
  static __m256i round(__m512 value) {
    const __m512i bits = _mm512_castps_si512(value), even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000)), 16));
  }
};

}  // namespace

void depthwise_bf16_avx512(const DepthwiseBf16& line) { sum_lines<Arithmetic>(line); }

}  // namespace tessera::backends::cpu
#endif
