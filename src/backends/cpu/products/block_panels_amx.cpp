// Compiled with AVX-512 and AMX: one tile register holds a group of a panel, and meets the group of 16 activation rows.
// Integer sums leave the tiles after each group, to be scaled and added as block_panels.h says.
#include "backends/cpu/products/block_panels.h"
#include "backends/cpu/products/tile_product.h"

#if defined(__AMX_INT8__) || defined(__AMXINT8__)  // clang before 16 names it without the underscore
#include <immintrin.h>

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kRows = 16;  // of activations, which fill a tile

// The operand of LDTILECFG.
struct alignas(64) PanelTiles {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Writes the sums of products of one group to [16 rows][16 columns].
template <int first, bool is_signed>
inline void multiply_group(const std::int8_t* rows, std::int64_t group, const std::uint8_t* weights,
                           std::int32_t* sums) {
  const std::int64_t line = 64;
  asm volatile("tilezero %%tmm%c0" : : "i"(first));
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(group), "i"(first + 1) : "memory");
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(weights), "r"(line), "i"(first + 2) : "memory");
  if constexpr (is_signed)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(first), "i"(first + 1), "i"(first + 2));
  else asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(first), "i"(first + 1), "i"(first + 2));
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(sums), "r"(line), "i"(first) : "memory");
}

inline __m512 sixteen(const std::uint8_t* from, bool half) {
  return half ? _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))) : _mm512_loadu_ps(from);
}

// The codes of a panel as signed bytes, less their zero, group after group.
const std::uint8_t* unpack(const BlockPanelLayout& layout, const std::uint8_t* panel) {
  const std::int64_t bytes = kPanelRows * layout.group;
  std::uint8_t* const codes = tile_workspace(layout.groups * bytes);
  const __m512i low = _mm512_set1_epi8(15), zero = _mm512_set1_epi8(static_cast<char>(layout.zero));
  std::uint8_t* to = codes;
  for (std::int64_t g = 0; g < layout.groups; ++g, panel += layout.group_bytes, to += bytes) {
    if (!layout.nibbles) {
      for (std::int64_t i = 0; i < bytes; i += 64)
        _mm512_store_si512(to + i, _mm512_sub_epi8(_mm512_loadu_si512(panel + i), zero));
      continue;
    }
    for (std::int64_t i = 0; i < bytes / 2; i += 64) {
      const __m512i both = _mm512_loadu_si512(panel + i), first = _mm512_and_si512(both, low),
                    second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
      _mm512_store_si512(to + i, _mm512_sub_epi8(first, zero));
      _mm512_store_si512(to + bytes / 2 + i, _mm512_sub_epi8(second, zero));
    }
  }
  return codes;
}

// Adds the sums of group `g` to the rows from `first` on. `scales` are those of the group in the panel.
template <bool has_zero, bool has_offsets>
inline void add_group(const BlockPanelLayout& layout, const RoundedActivations& x, std::int64_t at,
                      const std::uint8_t* scales, const std::int32_t* sums, __m512 (&total)[kRows]) {
  const __m512 scale = sixteen(scales, layout.half_scales);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    __m512i sum = _mm512_load_si512(sums + r * kPanelRows);
    if constexpr (has_zero) sum = _mm512_add_epi32(sum, _mm512_set1_epi32(x.starts[at + r]));
    const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[at + r]));
    total[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), both, total[r]);
  }
  if constexpr (has_offsets) {
    const __m512 offset = sixteen(scales + layout.scale_bytes, layout.half_scales);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) total[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x.sums[at + r]), total[r]);
  }
}

// The weights of a panel as the tiles read them, and where their next ones are fetched to the cache from, if not null.
struct PanelCodes {
  const std::uint8_t *panel, *codes, *ahead;
  std::int64_t step;  // bytes from one group's codes to those of the next
};

// 16 rows of activations from `first` on. A group's sums are added while the next group is multiplied. Codes that are
// not signed have a zero, which the activations' starts stand for.
template <bool is_signed, bool has_offsets>
void multiply_rows(const BlockPanelLayout& layout, const PanelCodes& weights, const RoundedActivations& x,
                   std::int64_t first, __mmask16 lanes, __m512 bias, float* y, std::int64_t ldy) {
  alignas(64) std::int32_t sums[2][kRows * kPanelRows];
  const std::int64_t groups = layout.groups, group = layout.group;
  const std::int8_t* rows = x.codes + first * group;
  const std::uint8_t *codes = weights.codes, *scales = weights.panel + layout.code_bytes, *ahead = weights.ahead;
  __m512 total[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) total[r] = _mm512_setzero_ps();
  multiply_group<0, is_signed>(rows, group, codes, sums[0]);
  for (std::int64_t g = 0; g < groups; ++g, scales += layout.group_bytes) {
    if (ahead != nullptr) {
      for (std::int64_t i = 0; i < layout.group_bytes; i += 64)
        _mm_prefetch(reinterpret_cast<const char*>(ahead + i), _MM_HINT_T0);
      ahead += layout.group_bytes;
    }
    rows += x.rows * group, codes += weights.step;
    if (g + 1 < groups) {
      if (g % 2 == 0) multiply_group<3, is_signed>(rows, group, codes, sums[1]);
      else multiply_group<0, is_signed>(rows, group, codes, sums[0]);
    }
    add_group<!is_signed, has_offsets>(layout, x, g * x.rows + first, scales, sums[g % 2], total);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) _mm512_mask_storeu_ps(y + (first + r) * ldy, lanes, _mm512_add_ps(total[r], bias));
}

// From so many rows on, bytes are made signed once for all rows instead of correcting each sum.
constexpr std::int64_t kFewestSignedRows = 64;

}  // namespace

// Tiles 0 and 3 are sums, 1 and 4 rows of activations, 2 and 5 groups of panels.
void configure_panel_tiles(const BlockPanelLayout& layout) {
  PanelTiles tiles;
  for (int first = 0; first <= 3; first += 3) {
    tiles.row_bytes[first] = tiles.row_bytes[first + 2] = 64;
    tiles.row_bytes[first + 1] = static_cast<std::uint16_t>(layout.group);
    tiles.rows[first] = tiles.rows[first + 1] = kRows;
    tiles.rows[first + 2] = static_cast<std::uint8_t>(layout.group / 4);
  }
  asm volatile("ldtilecfg %0" : : "m"(tiles));  // GCC 12's intrinsic declares only eight of the bytes as read
}

void release_panel_tiles() {
  _tile_release();
}

void multiply_block_panel_amx(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                              std::int64_t columns, const float* bias, float* y, std::int64_t ldy) {
  const auto lanes = static_cast<__mmask16>((1u << columns) - 1);
  // Adding −0 changes no bit.
  const __m512 added = bias != nullptr ? _mm512_maskz_loadu_ps(lanes, bias) : _mm512_set1_ps(-0.0f);
  const bool is_signed = layout.nibbles || x.rows >= kFewestSignedRows;
  // The panel behind this one is fetched beside the first rows; past the last one, nothing is read.
  PanelCodes weights{panel, panel, panel + layout.groups * layout.group_bytes, layout.group_bytes};
  if (is_signed) weights.codes = unpack(layout, panel), weights.step = kPanelRows * layout.group;
  const auto multiply = is_signed ? (layout.has_offsets ? multiply_rows<true, true> : multiply_rows<true, false>)
                                  : (layout.has_offsets ? multiply_rows<false, true> : multiply_rows<false, false>);
  for (std::int64_t r = 0; r < x.rows; r += kRows) {
    // The last rows that fill no tile are computed beside some that are done.
    const std::int64_t first = r + kRows <= x.rows ? r : x.rows - kRows;
    multiply(layout, weights, x, first, lanes, added, y, ldy);
    weights.ahead = nullptr;
  }
}

}  // namespace tessera::backends::cpu

#else

namespace tessera::backends::cpu {

void configure_panel_tiles(const BlockPanelLayout&) {}
void release_panel_tiles() {}
void multiply_block_panel_amx(const BlockPanelLayout&, const std::uint8_t*, const RoundedActivations&, std::int64_t,
                              const float*, float*, std::int64_t) {}

}  // namespace tessera::backends::cpu
#endif
