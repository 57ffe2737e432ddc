// Compiled with AVX-512 VBMI: the table is held in four vectors, and an instruction selects from two of them by seven
// bits.
#include "backends/cpu/element_wise/look_up_bytes.h"

#if defined(__AVX512VBMI__)
#include <immintrin.h>

namespace tessera::backends::cpu {

void look_up_bytes_vbmi(const std::uint8_t* x, std::uint8_t* y, std::int64_t count, const std::uint8_t* table) {
  const __m512i first = _mm512_loadu_si512(table), second = _mm512_loadu_si512(table + 64),
                third = _mm512_loadu_si512(table + 128), fourth = _mm512_loadu_si512(table + 192);
  for (std::int64_t i = 0; i < count; i += 64) {
    const __mmask64 inside = count - i >= 64 ? ~0ull : (1ull << (count - i)) - 1;
    const __m512i at = _mm512_maskz_loadu_epi8(inside, x + i);
    const __m512i low = _mm512_permutex2var_epi8(first, at, second), high = _mm512_permutex2var_epi8(third, at, fourth);
    _mm512_mask_storeu_epi8(y + i, inside, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
  }
}

}  // namespace tessera::backends::cpu
#endif
