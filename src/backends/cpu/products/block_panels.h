// Products of rows of activations that are rounded to 8 bits with weights in panels: 16 rows of weights side by side,
// group by group, so that one layout serves one row of activations as well as hundreds, and each lane of a vector sums
// one element of the output. Self-contained: files compiled for one instruction set include nothing else, since shared
// inline functions could end up with their instructions.
//
// A panel holds, for each group of `group` weights of a row, in this order:
// - codes, unsigned: weight = scale · (code − zero) + offset. Bytes: [group / 4][16 rows][4], element 4i + j of the
//   group at [i][row][j]. Nibbles: [group / 8][16 rows][4], quad i in the low four bits and quad i + group / 8 in the
//   high ones, where quad i has the elements from 4i on.
// - scales [16], of float16 or float32.
// - offsets [16] of the same type, if the panel has any.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr std::int64_t kPanelRows = 16;  // rows of weights, which are columns of the output

struct BlockPanelLayout {
  std::int64_t group = 32;  // weights that share a scale: 16 or 32
  std::int64_t groups = 0;  // of a row
  bool nibbles = true;      // codes of four bits; otherwise bytes
  std::int32_t zero = 0;    // 128 for bytes
  bool half_scales = true;  // scales and offsets of float16; otherwise of float32
  bool has_offsets = false;
  // Bytes of one group of a panel: of its codes, of its scales, of all.
  std::int64_t code_bytes = 0, scale_bytes = 0, group_bytes = 0;
};

// Rows of activations, group by group, so that a tile of rows reads neighbouring memory: element = scale · code.
struct RoundedActivations {
  std::int64_t rows = 0;
  std::int8_t* codes = nullptr;    // [groups, rows, group], in −127 … 127
  float* scales = nullptr;         // [groups, rows]: those of the block that holds each group
  std::int32_t* starts = nullptr;  // [groups, rows]: −zero · (sum of the group's codes)
  float* sums = nullptr;           // [groups, rows]: scale · (sum of the group's codes)
};

// How a block of activations is rounded: code = nearest integer to x · factor, with ties to even.
struct ActivationScale {
  float scale, factor;
};
// That of a block with this largest magnitude, as ops::block_linear says: without codes (factor 0) if the scale is not
// a normal number, and NaN if the block is not finite.
static inline ActivationScale activation_scale(float largest) {
  const float scale = largest / 127.0f;
  if (!(largest <= 3.40282347e+38f)) return {__builtin_nanf(""), 0};
  return scale >= 1.17549435e-38f ? ActivationScale{scale, 127.0f / largest} : ActivationScale{0, 0};
}

// Rounds rows [begin, end) of x [rows, groups · group] in blocks of `block` elements, as ops::block_linear says. The
// scale of a block that is not finite is NaN.
void round_activations_avx2(const BlockPanelLayout& layout, const float* x, std::int64_t begin, std::int64_t end,
                            std::int64_t block, const RoundedActivations& to);
void round_activations_avx512vnni(const BlockPanelLayout& layout, const float* x, std::int64_t begin, std::int64_t end,
                                  std::int64_t block, const RoundedActivations& to);
inline constexpr std::int64_t kRoundedTogether = 16;  // rows, whose codes of a group lie side by side

// y[i · ldy + j] for the first `columns` (1 to 16) columns of one panel and all rows: for each group in ascending
// order, y = fma(real(sum of products of codes), weight's scale · activation's scale, y), then y = fma(offset, sum, y)
// if there are offsets, beginning with 0; and last the bias is added, if not null. Integer sums are exact, so that all
// instruction sets and any number of rows give the same bits.
void multiply_block_panel_avx2(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                               std::int64_t columns, const float* bias, float* y, std::int64_t ldy);
void multiply_block_panel_avx512vnni(const BlockPanelLayout& layout, const std::uint8_t* panel,
                                     const RoundedActivations& x, std::int64_t columns, const float* bias, float* y,
                                     std::int64_t ldy);
// For kFewestPanelTileRows rows and more, between configure_panel_tiles and release_panel_tiles in the same thread.
void multiply_block_panel_amx(const BlockPanelLayout& layout, const std::uint8_t* panel, const RoundedActivations& x,
                              std::int64_t columns, const float* bias, float* y, std::int64_t ldy);
inline constexpr std::int64_t kFewestPanelTileRows = 16;
// Configuring the tiles waits for all that is under way, so that it is done once for many panels.
void configure_panel_tiles(const BlockPanelLayout& layout);
void release_panel_tiles();

}  // namespace tessera::backends::cpu
