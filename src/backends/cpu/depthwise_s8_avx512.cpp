// Compiled with AVX-512 VNNI.
#include "backends/cpu/depthwise_s8.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBlock = DepthwiseS8::kChannels * DepthwiseS8::kGroup;

// Interleaving works within quarters of a vector: vector v holds of quarter q the channels 16 q + 4 v and three more. Packing the
// sums down to bytes puts them in order again.
std::int64_t position(std::int64_t channel) { return channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4; }

void interleave(const DepthwiseS8& line) {
  const auto mask = static_cast<__mmask64>(line.channels >= 64 ? ~0ull : (1ull << line.channels) - 1);
  const __m512i padding = _mm512_set1_epi8(static_cast<char>(line.padding));
  std::uint8_t* to = line.interleaved;
  for (std::int64_t column = 0; column < line.columns; ++column) {
    const std::int64_t pixel = column - line.pad_begin;
    const bool inside = pixel >= 0 && pixel < line.input;
    for (std::int64_t group = 0; group < line.line_groups; ++group, to += kBlock) {
      __m512i x[4];
#pragma GCC unroll 4
      for (int l = 0; l < 4; ++l) {
        const std::uint8_t* from = line.lines[group * 4 + l];
        x[l] = inside && from != nullptr ? _mm512_maskz_loadu_epi8(mask, from + pixel * line.pixel_stride) : padding;
      }
      const __m512i low01 = _mm512_unpacklo_epi8(x[0], x[1]), high01 = _mm512_unpackhi_epi8(x[0], x[1]);
      const __m512i low23 = _mm512_unpacklo_epi8(x[2], x[3]), high23 = _mm512_unpackhi_epi8(x[2], x[3]);
      _mm512_storeu_si512(to, _mm512_unpacklo_epi16(low01, low23));
      _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
      _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
      _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
    }
  }
}

void store(const DepthwiseS8& line, const __m512i (&sum)[4], std::uint8_t* result, __mmask64 mask) {
  const __m512 low = _mm512_set1_ps(line.low), high = _mm512_set1_ps(line.high);
  const __m512i zero = _mm512_set1_epi32(line.zero);
  __m512i q[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[v]), _mm512_loadu_ps(line.factor + v * 16), _mm512_loadu_ps(line.offset + v * 16));
    // Of a NaN and a number the low end is taken: these instructions give their second operand.
    q[v] = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(value, low), high)), zero);
  }
  const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
  _mm512_mask_storeu_epi8(result, mask, bytes);
}

// Neighbouring outputs together, so that each weight is loaded once for them.
template <int outputs>
void convolve(const DepthwiseS8& line, std::int64_t o, __mmask64 mask) {
  __m512i sum[outputs][4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const __m512i start = _mm512_loadu_si512(line.start + v * 16);
#pragma GCC unroll 4
    for (int i = 0; i < outputs; ++i) sum[i][v] = start;
  }
  const std::int8_t* w = line.weights;
  const std::int64_t pixel = line.line_groups * kBlock;
  for (std::int64_t k = 0; k < line.kernel; ++k) {
    const std::uint8_t* x = line.interleaved + (o * line.stride + k * line.dilation) * pixel;
    for (std::int64_t group = 0; group < line.line_groups; ++group, w += kBlock, x += kBlock) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const __m512i weight = _mm512_loadu_si512(w + v * 64);
#pragma GCC unroll 4
        for (int i = 0; i < outputs; ++i) sum[i][v] = _mm512_dpbusd_epi32(sum[i][v], _mm512_loadu_si512(x + i * line.stride * pixel + v * 64), weight);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < outputs; ++i) store(line, sum[i], line.result + (o + i) * line.pixel_stride, mask);
}

void run(const DepthwiseS8& line) {
  interleave(line);
  const auto mask = static_cast<__mmask64>(line.channels >= 64 ? ~0ull : (1ull << line.channels) - 1);
  std::int64_t o = 0;
  for (; o + 4 <= line.outputs; o += 4) convolve<4>(line, o, mask);
  for (; o < line.outputs; ++o) convolve<1>(line, o, mask);
}

}  // namespace

const DepthwiseS8Isa& depthwise_s8_vnni() {
  static constexpr DepthwiseS8Isa kIsa{"vnni", run, position};
  return kIsa;
}

}  // namespace tessera::backends::cpu
#endif
