// Compiled with AVX-512 BF16, which rounds.
#if defined(__AVX512BF16__)
#include "backends/cpu/depthwise_bf16_avx512.h"

namespace tessera::backends::cpu {
namespace {

struct Instruction {
  static __m256i round(__m512 value) { return (__m256i)_mm512_cvtneps_pbh(value); }
};

}  // namespace

void depthwise_bf16_avx512bf16(const DepthwiseBf16& line) { sum_lines<Instruction>(line); }

}  // namespace tessera::backends::cpu
#endif
