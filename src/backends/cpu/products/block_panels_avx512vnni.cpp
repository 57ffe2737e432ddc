// Compiled with AVX-512 VNNI: one vector holds four neighbouring codes of each of a panel's 16 rows, and meets the same
// four codes of an activation row in all lanes.
#include "backends/cpu/products/block_panels.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kAhead = 2048;  // bytes of the panel that are fetched before they are needed

inline __m512i four_codes(const std::int8_t* from) {
  std::int32_t codes;
  __builtin_memcpy(&codes, from, 4);
  return _mm512_set1_epi32(codes);
}

inline __m512 sixteen(const std::uint8_t* from, bool half) {
  return half ? _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))) : _mm512_loadu_ps(from);
}

template <int quads, bool nibbles>
inline void load_codes(const std::uint8_t* from, __m512i (&codes)[quads]) {
  if constexpr (nibbles) {
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < quads / 2; ++i) {
      const __m512i both = _mm512_loadu_si512(from + i * 64);
      codes[i] = _mm512_and_si512(both, low);
      codes[i + quads / 2] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < quads; ++i) codes[i] = _mm512_loadu_si512(from + i * 64);
  }
}

template <int quads, bool nibbles, int rows>
void multiply_rows(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                   std::int64_t first, __mmask16 lanes, __m512 bias, float* y, std::int64_t ldy) {
  const std::int64_t groups = layout.groups, bytes = layout.group_bytes, code_bytes = layout.code_bytes,
                     scale_bytes = layout.scale_bytes, step = x.rows * quads * 4;
  constexpr int row_bytes = quads * 4, together = rows < 4 ? 1 : 4;
  const std::int8_t* codes = x.codes + first * row_bytes;
  std::int64_t at = first;
  __m512 total[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) total[r] = _mm512_setzero_ps();
  for (std::int64_t g = 0; g < groups; ++g, panel += bytes, codes += step, at += x.rows) {
    if constexpr (rows <= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < quads; ++i) _mm_prefetch(reinterpret_cast<const char*>(panel + kAhead + i * 64), _MM_HINT_T0);
    }
    __m512i weights[quads];
    load_codes<quads, nibbles>(panel, weights);
    const __m512 scale = sixteen(panel + code_bytes, layout.half_scales);
// Each product of a sum waits for the one before, so those of several rows take turns.
#pragma GCC unroll 4
    for (int begin = 0; begin < rows; begin += together) {
      __m512i sum[together];
#pragma GCC unroll 4
      for (int r = 0; r < together; ++r) sum[r] = _mm512_set1_epi32(x.starts[at + begin + r]);
#pragma GCC unroll 8
      for (int i = 0; i < quads; ++i) {
#pragma GCC unroll 4
        for (int r = 0; r < together; ++r)
          sum[r] = _mm512_dpbusd_epi32(sum[r], weights[i], four_codes(codes + (begin + r) * row_bytes + i * 4));
      }
#pragma GCC unroll 4
      for (int r = 0; r < together; ++r) {
        const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[at + begin + r]));
        total[begin + r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), both, total[begin + r]);
      }
    }
    if (layout.has_offsets) {
      const __m512 offset = sixteen(panel + code_bytes + scale_bytes, layout.half_scales);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) total[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x.sums[at + r]), total[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) _mm512_mask_storeu_ps(y + (first + r) * ldy, lanes, _mm512_add_ps(total[r], bias));
}

template <int quads, bool nibbles>
void multiply(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x, __mmask16 lanes,
              __m512 bias, float* y, std::int64_t ldy) {
  const std::int64_t rows = x.rows;
  std::int64_t r = 0;
  for (; r + 16 <= rows; r += 16) multiply_rows<quads, nibbles, 16>(layout, panel, x, r, lanes, bias, y, ldy);
  if (r + 8 <= rows) multiply_rows<quads, nibbles, 8>(layout, panel, x, r, lanes, bias, y, ldy), r += 8;
  if (r + 4 <= rows) multiply_rows<quads, nibbles, 4>(layout, panel, x, r, lanes, bias, y, ldy), r += 4;
  if (r + 2 <= rows) multiply_rows<quads, nibbles, 2>(layout, panel, x, r, lanes, bias, y, ldy), r += 2;
  if (r < rows) multiply_rows<quads, nibbles, 1>(layout, panel, x, r, lanes, bias, y, ldy);
}

// The largest magnitude of a block. Those of infinity and NaN have the largest bits.
inline float largest_of(const float* x, std::int64_t count) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; i += 16)
    largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude));
  const int most = _mm512_reduce_max_epi32(largest);
  float number;
  __builtin_memcpy(&number, &most, 4);
  return number;
}

// Rounds the block of `block` elements of a row that begins at element `at`.
inline void round_block(const BlockPanelLayout& layout, const float* x, std::int64_t at, std::int64_t block,
                        std::int64_t row, const RoundedActivations& to) {
  const ActivationScale scale = activation_scale(largest_of(x, block));
  const __m512 factor = _mm512_set1_ps(scale.factor);
  const __mmask16 all = scale.factor != 0 ? 0xFFFF : 0;  // 0 · NaN has no code
  const std::int64_t group = layout.group;
  std::int64_t place = at / group * to.rows + row;  // [group, row]
  for (std::int64_t first = 0; first < block; first += group, place += to.rows) {
    __m512i sum = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < group; i += 16) {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + first + i), factor);
      const __m512i codes = _mm512_maskz_cvtps_epi32(all, scaled);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to.codes + place * group + i), _mm512_cvtsepi32_epi8(codes));
      sum = _mm512_add_epi32(sum, codes);
    }
    const std::int32_t total = _mm512_reduce_add_epi32(sum);
    to.scales[place] = scale.scale;
    to.starts[place] = -layout.zero * total;
    to.sums[place] = scale.scale * static_cast<float>(total);
  }
}

}  // namespace

void round_activations_avx512vnni(const BlockPanelLayout& layout, const float* x, std::int64_t begin, std::int64_t end,
                                  std::int64_t block, const RoundedActivations& to) {
  const std::int64_t k = layout.groups * layout.group;
  for (; begin < end; begin += kRoundedTogether) {
    const std::int64_t last = begin + kRoundedTogether < end ? begin + kRoundedTogether : end;
    for (std::int64_t at = 0; at < k; at += block) {
      for (std::int64_t row = begin; row < last; ++row) {
        const float* const from = x + row * k + at;
        for (std::int64_t i = block; i < 2 * block; i += 16)  // rows lie too far apart for the hardware
          _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T0);
        round_block(layout, from, at, block, row, to);
      }
    }
  }
}

void multiply_block_panel_avx512vnni(const BlockPanelLayout& layout, const std::uint8_t* panel,
                                     const RoundedActivations& x, std::int64_t columns, const float* bias, float* y,
                                     std::int64_t ldy) {
  const auto lanes = static_cast<__mmask16>((1u << columns) - 1);
  // Adding −0 changes no bit.
  const __m512 added = bias != nullptr ? _mm512_maskz_loadu_ps(lanes, bias) : _mm512_set1_ps(-0.0f);
  const bool wide = layout.group == 32;
  if (wide && layout.nibbles) multiply<8, true>(layout, panel, x, lanes, added, y, ldy);
  else if (wide) multiply<8, false>(layout, panel, x, lanes, added, y, ldy);
  else if (layout.nibbles) multiply<4, true>(layout, panel, x, lanes, added, y, ldy);
  else multiply<4, false>(layout, panel, x, lanes, added, y, ldy);
}

}  // namespace tessera::backends::cpu

#else

namespace tessera::backends::cpu {

void round_activations_avx512vnni(const BlockPanelLayout&, const float*, std::int64_t, std::int64_t, std::int64_t,
                                  const RoundedActivations&) {}
void multiply_block_panel_avx512vnni(const BlockPanelLayout&, const std::uint8_t*, const RoundedActivations&,
                                     std::int64_t, const float*, float*, std::int64_t) {}

}  // namespace tessera::backends::cpu
#endif
