// Compiled with AVX-512 BF16: dot products of pairs, each of two lines of the window.
//
// The numbers of two lines are interleaved within each 128 bits, so that of 32 channels one vector of pairs holds the
// first four of every eight, and the other the rest. Weights are interleaved alike, and sums are put in order before
// they are stored.
#include "backends/cpu/convolutions/depthwise/depthwise_bf16.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::backends::cpu {
namespace {

using Line = DepthwiseBf16;
constexpr __mmask32 kAll = 0xFFFFFFFF;

// Two interleaved lines, and sums, of 32 channels.
struct Pairs {
  __m512bh first, second;
};
struct Sums {
  __m512 first, second;

  void add(const Pairs& x, const Pairs& w) {
    first = _mm512_dpbf16_ps(first, x.first, w.first);
    second = _mm512_dpbf16_ps(second, x.second, w.second);
  }
};

// `whole`: all 32 channels, otherwise those of the mask; masked loads are slower, masked stores much slower.
template <bool whole>
inline __m512i load(const std::uint16_t* from, __mmask32 mask) {
  return whole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(mask, from);
}
// The odd number of each pair is the lower line's.
inline Pairs interleave(__m512i upper, __m512i lower) {
  return {(__m512bh)_mm512_unpacklo_epi16(upper, lower), (__m512bh)_mm512_unpackhi_epi16(upper, lower)};
}

// Converts two vectors in channel order to the interleaved order of sums, and back.
inline Sums split(__m512 first, __m512 second) {
  return {_mm512_permutex2var_ps(first, _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                                 second),
          _mm512_permutex2var_ps(first, _mm512_setr_epi32(4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31),
                                 second)};
}
inline Sums in_order(const Sums& sums) {
  return {
      _mm512_permutex2var_ps(sums.first, _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                             sums.second),
      _mm512_permutex2var_ps(
          sums.first, _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31), sums.second)};
}

inline __m512 widen(__m256i numbers) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}
inline __m512 addend_at(const Line& line, std::int64_t at, __mmask16 mask) {
  if (line.rounded_addend)
    return widen(_mm256_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(line.addend) + at));
  return _mm512_maskz_loadu_ps(mask, static_cast<const float*>(line.addend) + at);
}
inline __m512 clamp(const Line& line, __m512 value) {
  return _mm512_min_ps(
      _mm512_set1_ps(line.high),
      _mm512_max_ps(_mm512_set1_ps(line.low), value));  // returns operand 2 if either is NaN: NaN stays
}

template <bool whole>
inline void store(const Line& line, const Sums& sums, std::int64_t at, __mmask32 mask) {
  auto [first, second] = in_order(sums);
  const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> 16);
  if (line.addend != nullptr) {
    first = _mm512_add_ps(first, addend_at(line, at, low));
    second = _mm512_add_ps(second, addend_at(line, at + 16, high));
  }
  first = clamp(line, first);
  second = clamp(line, second);
  if (!whole && mask == 0xFFFF) {  // half of the channels
    if (line.rounded_result)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<std::uint16_t*>(line.result) + at),
                          (__m256i)_mm512_cvtneps_pbh(first));
    else _mm512_storeu_ps(static_cast<float*>(line.result) + at, first);
    return;
  }
  if (line.rounded_result) {
    auto* to = static_cast<std::uint16_t*>(line.result) + at;
    const auto numbers = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    if constexpr (whole) _mm512_storeu_si512(to, numbers);
    else _mm512_mask_storeu_epi16(to, mask, numbers);
    return;
  }
  float* to = static_cast<float*>(line.result) + at;
  if constexpr (whole) _mm512_storeu_ps(to, first), _mm512_storeu_ps(to + 16, second);
  else _mm512_mask_storeu_ps(to, low, first), _mm512_mask_storeu_ps(to + 16, high, second);
}

// Computes neighbouring outputs, without dilation: each input is read once for all windows that contain it. `inside`:
// all windows are inside of the line.
template <int kernel, int stride, int outputs, bool inside, bool whole>
inline void sum_together(const Line& line, std::int64_t c, __mmask32 mask, std::int64_t o) {
  Sums sum[outputs];
  const Sums bias = split(_mm512_loadu_ps(line.bias + c), _mm512_loadu_ps(line.bias + c + 16));
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) sum[i] = bias;
  const std::int64_t start = o * stride - line.pad_begin;
  for (std::int64_t l = 0; l < line.line_count; l += 2) {
    const bool pair = l + 1 < line.line_count;
    Pairs weight[kernel];
#pragma GCC unroll 8
    for (int k = 0; k < kernel; ++k) {
      const std::int64_t at = k * line.padded_channels + c;
      weight[k] = interleave(_mm512_loadu_si512(line.weights[l] + at),
                             pair ? _mm512_loadu_si512(line.weights[l + 1] + at) : _mm512_setzero_si512());
    }
    const std::uint16_t *upper = line.lines[l] + start * line.channels + c,
                        *lower = pair ? line.lines[l + 1] + start * line.channels + c : upper;
    const __m512i keep = _mm512_set1_epi32(pair ? -1 : 0);
#pragma GCC unroll 32
    for (int j = 0; j < (outputs - 1) * stride + kernel; ++j, upper += line.channels, lower += line.channels) {
      if (!inside && (start + j < 0 || start + j >= line.input)) continue;
      const Pairs x = interleave(load<whole>(upper, mask), _mm512_and_si512(load<whole>(lower, mask), keep));
#pragma GCC unroll 8
      for (int k = 0; k < kernel; ++k) {
        if ((j - k) % stride == 0 && j >= k && (j - k) / stride < outputs) sum[(j - k) / stride].add(x, weight[k]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < outputs; ++i) store<whole>(line, sum[i], (o + i) * line.channels + c, mask);
}

template <int kernel, int stride, int outputs>
void sum_block(const Line& line, std::int64_t c, __mmask32 mask, std::int64_t o) {
  const std::int64_t start = o * stride - line.pad_begin;
  if (mask != kAll) sum_together<kernel, stride, outputs, false, false>(line, c, mask, o);
  else if (start >= 0 && start + (outputs - 1) * stride + kernel <= line.input)
    sum_together<kernel, stride, outputs, true, true>(line, c, mask, o);
  else sum_together<kernel, stride, outputs, false, true>(line, c, mask, o);
}

inline __mmask32 mask_at(const Line& line, std::int64_t c) {
  return line.channels - c >= Line::kLanes ? kAll : (__mmask32{1} << (line.channels - c)) - 1;
}

// Computes the channels [first, last), which should be adjacent vectors: reading one vector per pixel is slow.
template <int kernel, int stride>
void sum_line(const Line& line, std::int64_t first, std::int64_t last) {
  constexpr int kMostOutputs = kernel == 3 ? 8 : 7;  // whose sums fit the registers, beside weights
  using Together = void (*)(const Line&, std::int64_t, __mmask32, std::int64_t);
  static constexpr auto kTogether = []<int... counts>(std::integer_sequence<int, counts...>) {
    return std::array<Together, sizeof...(counts)>{sum_block<kernel, stride, counts + 1>...};
  }(std::make_integer_sequence<int, kMostOutputs>());
  // Blocks of about equal size.
  const std::int64_t blocks = (line.output + kMostOutputs - 1) / kMostOutputs;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = line.output * block / blocks, end = line.output * (block + 1) / blocks;
    for (std::int64_t channel = first; channel < last; channel += Line::kLanes) {
      // Rather than an incomplete last vector, compute a whole one that overlaps the previous. Not with an addend,
      // whose memory may be the result's.
      const std::int64_t c = line.channels < Line::kLanes || line.addend != nullptr
                                 ? channel
                                 : std::min(channel, line.channels - Line::kLanes);
      kTogether[static_cast<std::size_t>(end - begin - 1)](line, c, mask_at(line, c), begin);
    }
  }
}

void sum_any(const Line& line, std::int64_t first, std::int64_t last) {
  for (std::int64_t o = 0; o < line.output; ++o) {
    for (std::int64_t c = first; c < last; c += Line::kLanes) {
      const __mmask32 mask = mask_at(line, c);
      Sums sum = split(_mm512_loadu_ps(line.bias + c), _mm512_loadu_ps(line.bias + c + 16));
      for (std::int64_t l = 0; l < line.line_count; l += 2) {
        const bool pair = l + 1 < line.line_count;
        for (std::int64_t k = 0; k < line.kernel; ++k) {
          const std::int64_t pixel = o * line.stride - line.pad_begin + k * line.dilation,
                             x = pixel * line.channels + c, w = k * line.padded_channels + c;
          if (pixel < 0 || pixel >= line.input) continue;
          sum.add(interleave(load<false>(line.lines[l] + x, mask),
                             pair ? load<false>(line.lines[l + 1] + x, mask) : _mm512_setzero_si512()),
                  interleave(_mm512_loadu_si512(line.weights[l] + w),
                             pair ? _mm512_loadu_si512(line.weights[l + 1] + w) : _mm512_setzero_si512()));
        }
      }
      store<false>(line, sum, o * line.channels + c, mask);
    }
  }
}

}  // namespace

void depthwise_bf16_avx512bf16(const DepthwiseBf16& line) {
  auto sum = sum_any;
  if (line.dilation == 1 && line.kernel == 3 && line.stride <= 2)
    sum = line.stride == 1 ? sum_line<3, 1> : sum_line<3, 2>;
  if (line.dilation == 1 && line.kernel == 5 && line.stride <= 2)
    sum = line.stride == 1 ? sum_line<5, 1> : sum_line<5, 2>;
  constexpr std::int64_t kBlock = 2 * Line::kLanes;
  for (std::int64_t c = 0; c < line.channels; c += kBlock)
    sum(line, c, line.channels - c < kBlock ? line.channels : c + kBlock);
}

}  // namespace tessera::backends::cpu
#endif
