// Compiled with AVX-512 BF16: rounds by its conversion instruction.
#include "backends/cpu/element_wise/rounding_bf16.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

namespace tessera::backends::cpu {

void round_to_bf16_row_avx512bf16(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
  if (i == count) return;
  const auto mask = static_cast<__mmask16>((1 << (count - i)) - 1);
  _mm256_mask_storeu_epi16(y + i, mask, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i)));
}

void round_pictures_avx512bf16(const float* x, std::uint16_t* y, std::int64_t pixels) {
  constexpr __mmask16 kThree = 0x7777;  // of every four
  const __m512i place = _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0);
  const auto spread = [&](__m512 numbers) {
    return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_permutexvar_ps(kThree, place, numbers));
  };
  for (; pixels >= 6; pixels -= 4, x += 12, y += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), spread(_mm512_loadu_ps(x)));  // reads four floats more
  for (; pixels > 0; --pixels, x += 3, y += 4) _mm256_mask_storeu_epi16(y, 0xF, spread(_mm512_maskz_loadu_ps(0x7, x)));
}

}  // namespace tessera::backends::cpu
#endif
