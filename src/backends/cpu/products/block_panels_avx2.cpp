// Compiled with AVX2: half a panel at a time, whose vectors hold four neighbouring codes of each of eight rows.
#include "backends/cpu/products/block_panels.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kLanes = 8;

inline __m256i four_codes(const std::int8_t* from) {
  std::int32_t codes;
  __builtin_memcpy(&codes, from, 4);
  return _mm256_set1_epi32(codes);
}

inline __m256i bytes_at(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// Scales or offsets of half a panel.
inline __m256 eight(const std::uint8_t* from, bool half, std::int64_t lane) {
  return half ? _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * lane)))
              : _mm256_loadu_ps(reinterpret_cast<const float*>(from) + lane);
}

// The exact sums of products of one group with each row. Products of a pair fit 16 bits: 2 · 128 · 127 for bytes, whose
// signs move to the activations; and all pairs of a group of nibbles do, 16 · 15 · 127.
template <int quads, bool nibbles, int rows>
inline void multiply_group(const std::uint8_t* from, const std::int8_t* codes, const std::int32_t* starts,
                           __m256i (&sum)[rows]) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (nibbles) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i pairs[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) pairs[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < quads / 2; ++i) {
      const __m256i both = bytes_at(from + i * 64), first = _mm256_and_si256(both, low),
                    second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const std::int8_t* row = codes + r * quads * 4 + i * 4;
        pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(first, four_codes(row)));
        pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(second, four_codes(row + quads * 2)));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
      sum[r] = _mm256_add_epi32(_mm256_set1_epi32(starts[r]), _mm256_madd_epi16(pairs[r], ones));
  } else {
    const __m256i zero = _mm256_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) sum[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < quads; ++i) {
      const __m256i centred = _mm256_xor_si256(bytes_at(from + i * 64), zero), magnitude = _mm256_abs_epi8(centred);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const __m256i row = _mm256_sign_epi8(four_codes(codes + r * quads * 4 + i * 4), centred);
        sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, row), ones));
      }
    }
  }
}

template <int quads, bool nibbles, int rows>
void multiply_rows(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                   std::int64_t first, std::int64_t lane, float* to) {
  const std::int64_t groups = layout.groups, bytes = layout.group_bytes, code_bytes = layout.code_bytes,
                     scale_bytes = layout.scale_bytes, step = x.rows * quads * 4;
  const std::int8_t* codes = x.codes + first * quads * 4;
  std::int64_t at = first;
  __m256 total[rows];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) total[r] = _mm256_setzero_ps();
  for (std::int64_t g = 0; g < groups; ++g, panel += bytes, codes += step, at += x.rows) {
    __m256i sum[rows];
    multiply_group<quads, nibbles, rows>(panel + lane * 4, codes, x.starts + at, sum);
    const __m256 scale = eight(panel + code_bytes, layout.half_scales, lane);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[at + r]));
      total[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), both, total[r]);
    }
    if (layout.has_offsets) {
      const __m256 offset = eight(panel + code_bytes + scale_bytes, layout.half_scales, lane);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) total[r] = _mm256_fmadd_ps(offset, _mm256_set1_ps(x.sums[at + r]), total[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) _mm256_storeu_ps(to + r * kPanelRows + lane, total[r]);
}

template <int quads, bool nibbles, int rows>
void multiply_panel(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                    std::int64_t first, std::int64_t columns, const float* bias, float* y, std::int64_t ldy) {
  float sums[rows * kPanelRows];
  for (std::int64_t lane = 0; lane < columns; lane += kLanes)
    multiply_rows<quads, nibbles, rows>(layout, panel, x, first, lane, sums);
  for (int r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j)
      y[(first + r) * ldy + j] = bias != nullptr ? sums[r * kPanelRows + j] + bias[j] : sums[r * kPanelRows + j];
  }
}

template <int quads, bool nibbles>
void multiply(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
              std::int64_t columns, const float* bias, float* y, std::int64_t ldy) {
  const std::int64_t rows = x.rows;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) multiply_panel<quads, nibbles, 4>(layout, panel, x, r, columns, bias, y, ldy);
  if (r + 2 <= rows) multiply_panel<quads, nibbles, 2>(layout, panel, x, r, columns, bias, y, ldy), r += 2;
  if (r < rows) multiply_panel<quads, nibbles, 1>(layout, panel, x, r, columns, bias, y, ldy);
}

inline std::int32_t sum_of(__m256i lanes) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

// The largest magnitude of a block. Those of infinity and NaN have the largest bits.
inline float largest_of(const float* x, std::int64_t count) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, magnitude));
  }
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(most));
}

// Rounds the block of `block` elements of a row that begins at element `at`.
inline void round_block(const BlockPanelLayout& layout, const float* x, std::int64_t at, std::int64_t block,
                        std::int64_t row, const RoundedActivations& to) {
  const ActivationScale scale = activation_scale(largest_of(x, block));
  const __m256 factor = _mm256_set1_ps(scale.factor);
  const __m256i all = _mm256_set1_epi32(scale.factor != 0 ? -1 : 0);  // 0 · NaN has no code
  const std::int64_t group = layout.group;
  std::int64_t place = at / group * to.rows + row;  // [group, row]
  for (std::int64_t first = 0; first < block; first += group, place += to.rows) {
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < group; i += 2 * kLanes) {
      const float* const from = x + first + i;
      const __m256i low = _mm256_and_si256(all, _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from), factor))),
                    high = _mm256_and_si256(all,
                                            _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from + kLanes), factor)));
      const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to.codes + place * group + i),
                       _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
      sum = _mm256_add_epi32(sum, _mm256_add_epi32(low, high));
    }
    const std::int32_t total = sum_of(sum);
    to.scales[place] = scale.scale;
    to.starts[place] = -layout.zero * total;
    to.sums[place] = scale.scale * static_cast<float>(total);
  }
}

}  // namespace

void round_activations_avx2(const BlockPanelLayout& layout, const float* x, std::int64_t begin, std::int64_t end,
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

void multiply_block_panel_avx2(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                               std::int64_t columns, const float* bias, float* y, std::int64_t ldy) {
  const bool wide = layout.group == 32;
  if (wide && layout.nibbles) multiply<8, true>(layout, panel, x, columns, bias, y, ldy);
  else if (wide) multiply<8, false>(layout, panel, x, columns, bias, y, ldy);
  else if (layout.nibbles) multiply<4, true>(layout, panel, x, columns, bias, y, ldy);
  else multiply<4, false>(layout, panel, x, columns, bias, y, ldy);
}

}  // namespace tessera::backends::cpu

#else

namespace tessera::backends::cpu {

void round_activations_avx2(const BlockPanelLayout&, const float*, std::int64_t, std::int64_t, std::int64_t,
                            const RoundedActivations&) {}
void multiply_block_panel_avx2(const BlockPanelLayout&, const std::uint8_t*, const RoundedActivations&, std::int64_t,
                               const float*, float*, std::int64_t) {}

}  // namespace tessera::backends::cpu
#endif
