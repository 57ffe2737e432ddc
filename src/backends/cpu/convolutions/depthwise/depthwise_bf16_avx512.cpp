// Compiled with AVX-512, for CPUs without AVX-512 BF16: numbers are widened when read and rounded when written.
#if defined(__AVX512BW__)
#include <immintrin.h>

#include <array>
#include <utility>

#include "backends/cpu/convolutions/depthwise/depthwise_bf16.h"

namespace tessera::backends::cpu {
namespace {

using Line = DepthwiseBf16;
constexpr std::int64_t kLanes = 16;
constexpr int kMostOutputs = 8;  // neighbours summed at once

inline __m512 load(const std::uint16_t* from, __mmask16 mask) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
}

// Rounds to nearest, ties to even; NaN stays NaN.
inline __m256i round(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value),
                even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(
      _mm512_srli_epi32(_mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000)), 16));
}

inline void store(const Line& line, __m512 value, std::int64_t at, __mmask16 mask) {
  if (line.addend != nullptr) {
    value = _mm512_add_ps(value, line.rounded_addend
                                     ? load(static_cast<const std::uint16_t*>(line.addend) + at, mask)
                                     : _mm512_maskz_loadu_ps(mask, static_cast<const float*>(line.addend) + at));
  }
  value =
      _mm512_min_ps(_mm512_set1_ps(line.high),
                    _mm512_max_ps(_mm512_set1_ps(line.low), value));  // returns operand 2 if either is NaN: NaN stays
  if (line.rounded_result) _mm256_mask_storeu_epi16(static_cast<std::uint16_t*>(line.result) + at, mask, round(value));
  else _mm512_mask_storeu_ps(static_cast<float*>(line.result) + at, mask, value);
}

// Computes one vector of channels of neighbouring outputs, without dilation: each input is read once for all windows
// that contain it.
template <int kernel, int stride, int outputs>
void sum_together(const Line& line, std::int64_t c, __mmask16 mask, std::int64_t o) {
  __m512 sum[outputs];
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) sum[i] = _mm512_loadu_ps(line.bias + c);
  const std::int64_t start = o * stride - line.pad_begin;
  for (std::int64_t l = 0; l < line.line_count; ++l) {
    __m512 weight[kernel];
#pragma GCC unroll 8
    for (int k = 0; k < kernel; ++k) weight[k] = load(line.weights[l] + k * line.padded_channels + c, 0xFFFF);
    const std::uint16_t* x = line.lines[l] + start * line.channels + c;
#pragma GCC unroll 32
    for (int j = 0; j < (outputs - 1) * stride + kernel; ++j, x += line.channels) {
      if (start + j < 0 || start + j >= line.input) continue;
      const __m512 number = load(x, mask);
#pragma GCC unroll 8
      for (int k = 0; k < kernel; ++k) {
        if ((j - k) % stride == 0 && j >= k && (j - k) / stride < outputs)
          sum[(j - k) / stride] = _mm512_fmadd_ps(number, weight[k], sum[(j - k) / stride]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) store(line, sum[i], (o + i) * line.channels + c, mask);
}

inline __mmask16 mask_at(const Line& line, std::int64_t c) {
  return static_cast<__mmask16>(line.channels - c >= kLanes ? 0xFFFF : (1 << (line.channels - c)) - 1);
}

// Computes the channels [first, last), which should be adjacent vectors: reading one vector per pixel is slow.
template <int kernel, int stride>
void sum_line(const Line& line, std::int64_t first, std::int64_t last) {
  using Together = void (*)(const Line&, std::int64_t, __mmask16, std::int64_t);
  static constexpr auto kTogether = []<int... counts>(std::integer_sequence<int, counts...>) {
    return std::array<Together, sizeof...(counts)>{sum_together<kernel, stride, counts + 1>...};
  }(std::make_integer_sequence<int, kMostOutputs>());
  // Blocks of about equal size.
  const std::int64_t blocks = (line.output + kMostOutputs - 1) / kMostOutputs;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = line.output * block / blocks, end = line.output * (block + 1) / blocks;
    for (std::int64_t c = first; c < last; c += kLanes)
      kTogether[static_cast<std::size_t>(end - begin - 1)](line, c, mask_at(line, c), begin);
  }
}

void sum_any(const Line& line, std::int64_t first, std::int64_t last) {
  for (std::int64_t o = 0; o < line.output; ++o) {
    for (std::int64_t c = first; c < last; c += kLanes) {
      const __mmask16 mask = mask_at(line, c);
      __m512 sum = _mm512_loadu_ps(line.bias + c);
      for (std::int64_t l = 0; l < line.line_count; ++l) {
        for (std::int64_t k = 0; k < line.kernel; ++k) {
          const std::int64_t pixel = o * line.stride - line.pad_begin + k * line.dilation;
          if (pixel < 0 || pixel >= line.input) continue;
          sum = _mm512_fmadd_ps(load(line.lines[l] + pixel * line.channels + c, mask),
                                load(line.weights[l] + k * line.padded_channels + c, 0xFFFF), sum);
        }
      }
      store(line, sum, o * line.channels + c, mask);
    }
  }
}

}  // namespace

void depthwise_bf16_avx512(const DepthwiseBf16& line) {
  auto sum = sum_any;
  if (line.dilation == 1 && line.kernel == 3 && line.stride <= 2)
    sum = line.stride == 1 ? sum_line<3, 1> : sum_line<3, 2>;
  if (line.dilation == 1 && line.kernel == 5 && line.stride <= 2)
    sum = line.stride == 1 ? sum_line<5, 1> : sum_line<5, 2>;
  constexpr std::int64_t kBlock = 4 * kLanes;
  for (std::int64_t c = 0; c < line.channels; c += kBlock)
    sum(line, c, line.channels - c < kBlock ? line.channels : c + kBlock);
}

}  // namespace tessera::backends::cpu
#endif
