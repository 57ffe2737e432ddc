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

inline __m256 magnitudes(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

// The nearest integers, of two the one away from zero.
inline __m256i round_away(__m256 x) {
  const __m256 whole = _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256 is_more = _mm256_cmp_ps(magnitudes(_mm256_sub_ps(x, whole)), _mm256_set1_ps(0.5f), _CMP_GE_OQ);
  const __m256 step = _mm256_or_ps(_mm256_and_ps(x, _mm256_set1_ps(-0.0f)), _mm256_set1_ps(1.0f));
  return _mm256_cvttps_epi32(_mm256_add_ps(whole, _mm256_and_ps(is_more, step)));
}

inline std::int32_t sum_of(__m256i lanes) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

// Codes of eight elements, which stay within −127 … 127 even where a subnormal scale was rounded.
inline __m256i codes_of(__m256 x, __m256 scale) {
  const __m256i codes = round_away(_mm256_div_ps(x, scale));
  return _mm256_max_epi32(_mm256_min_epi32(codes, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
}

inline void store_codes(__m256i codes, std::int8_t* to) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}

// The largest magnitude of a block, or NaN if it holds an infinity or NaN.
float largest_of(const float* x, std::int64_t count) {
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  __m256 largest = _mm256_setzero_ps(), is_finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __m256 values = magnitudes(_mm256_loadu_ps(x + i));
    is_finite = _mm256_and_ps(is_finite, _mm256_cmp_ps(values, infinity, _CMP_LT_OQ));
    largest = _mm256_max_ps(values, largest);
  }
  if (_mm256_movemask_ps(is_finite) != 0xFF) return __builtin_nanf("");
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_shuffle_ps(most, most, 1)));
}

// Rounds the block of `block` elements of a row that begins at element `at`.
inline void round_block(const BlockPanelLayout& layout, const float* x, std::int64_t at, std::int64_t block,
                        std::int64_t row, const RoundedActivations& to) {
  const float scale = largest_of(x, block) / 127.0f;
  const bool has_codes = scale > 0;  // no zero and no NaN
  const __m256 divisor = _mm256_set1_ps(has_codes ? scale : 1.0f);
  const std::int64_t group = layout.group;
  for (std::int64_t first = 0; first < block; first += group) {
    const std::int64_t place = (at + first) / group * to.rows + row;  // [group, row]
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < group; i += kLanes) {
      const __m256i codes = has_codes ? codes_of(_mm256_loadu_ps(x + first + i), divisor) : _mm256_setzero_si256();
      store_codes(codes, to.codes + place * group + i);
      sum = _mm256_add_epi32(sum, codes);
    }
    const std::int32_t total = sum_of(sum);
    to.scales[place] = scale;
    to.starts[place] = -layout.zero * total;
    to.sums[place] = scale * static_cast<float>(total);
  }
}

}  // namespace

void round_activations_avx2(const BlockPanelLayout& layout, const float* x, std::int64_t begin, std::int64_t end,
                            std::int64_t block, const RoundedActivations& to) {
  // The codes of one row lie far apart, those of neighbouring rows side by side.
  constexpr std::int64_t kTogether = 16;
  const std::int64_t k = layout.groups * layout.group;
  for (; begin < end; begin += kTogether) {
    const std::int64_t last = begin + kTogether < end ? begin + kTogether : end;
    for (std::int64_t at = 0; at < k; at += block) {
      for (std::int64_t row = begin; row < last; ++row) round_block(layout, x + row * k + at, at, block, row, to);
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
