// The indirect product (indirect_product_f32.h) of bfloat16 numbers with float32 sums. Self-contained, as
// indirect_product_s8.h.
//
// Numbers are stored as bits: the upper halves of floats. The order of a sum is that of VDPBF16PS (Intel, "Intrinsics
// Guide"): of each pair of neighbours the odd one first. That instruction takes denormals as zero, so results differ
// there between instruction sets; so does the order of tile registers (TDPBF16PS), which sum the even and the odd ones
// of 32 numbers separately.
#pragma once

#include <cstdint>

#include "backends/cpu/products/tile_rows.h"

namespace tessera::backends::cpu {

struct IndirectProductBf16 {
  static constexpr std::int64_t kMostRows = 12;  // that vectors multiply at a time
  static constexpr std::int64_t kColumns = 32;   // of a panel
  static constexpr std::int64_t kLanes = 16;     // the last panel is a whole number of these wide
  static constexpr std::int64_t kGroup = 2;      // neighbours in a row that are multiplied together

  std::int64_t rows = 0;               // at most tile_rows
  std::int64_t tile_rows = kMostRows;  // of the multiplier
  // For tile registers: `half_rows` is the number of rows in the first of two tiles. If segments of A do not end at a
  // step of 64 bytes, `segment_groups` is the number of groups in a segment of A, and `groups` counts those of its
  // weights, whole steps: the last step of A begins early enough to end with the segment, and meets zero weights where
  // it overlaps.
  std::int64_t half_rows = 16, segment_groups = 0;
  const TileRun* spaced = nullptr;             // or null; replaces `left` if the rows of each segment are evenly spaced
  std::int64_t segments = 0, groups = 0;       // segments of a row of A; groups of a segment
  const std::uint16_t* const* left = nullptr;  // segment s of row i at left[s * tile_rows + i]
  std::int64_t skipped = 0;                    // numbers of each segment before the multiplied ones
  // Panels one after the other, each [panel_groups][width][kGroup]. Groups from first_group on are multiplied: all, or
  // a part of the depth.
  const std::uint16_t* right = nullptr;
  std::int64_t panel_groups = 0, first_group = 0;
  std::int64_t columns = 0;     // of the panels together
  const float* bias = nullptr;  // per column, rounded up to kLanes
  float* partial = nullptr;     // sums between parts of the depth, [panel][tile_rows][kColumns]; 64-byte aligned
  const std::uint16_t* ahead = nullptr;  // weights of later products, of which ahead_bytes are prefetched
  std::int64_t ahead_bytes = 0;
  bool begins = true,
       ends = true;  // whether this part of the depth is the first, the last; otherwise `partial` is read, written
  const void* addend = nullptr;                    // [rows][ldc]; or null
  void* c = nullptr;                               // clamp(bias + Σ A·B + addend), [rows][ldc]
  bool rounded_addend = false, rounded_c = false;  // bfloat16 instead of float32
  std::int64_t ldc = 0;
  float low = 0, high = 0;
  bool hard_swish = false;  // instead of bounds, if the multiplier supports it: x clamp(x / 6 + 1 / 2, 0, 1)
};

void multiply_bf16_avx512bf16(const IndirectProductBf16& product);
void multiply_bf16_amx(const IndirectProductBf16& product);
void multiply_bf16_emulated(const IndirectProductBf16& product);  // multiply_bf16_amx on any machine

// A function that multiplies, and the shapes it takes.
struct MultiplierBf16 {
  void (*multiply)(const IndirectProductBf16&);
  std::int64_t tile_rows;   // the most rows at a time
  std::int64_t depth_step;  // groups that are summed together: parts of the depth begin at multiples of it, so that
                            // sums are equal bit for bit
  bool tiles;               // whether it uses tile registers: see TileScope
  bool has_hard_swish;
};
// Returns the multiplier for products of `rows` rows with the active instruction set; without bfloat16 instructions it
// widens to float32.
MultiplierBf16 multiplier_bf16(std::int64_t rows);

}  // namespace tessera::backends::cpu
