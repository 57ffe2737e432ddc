// The indirect product (indirect_product_f32.h) of 8-bit integers: unsigned rows that lie anywhere in memory, times
// packed signed weights, with exact 32-bit sums. Self-contained: files compiled for one instruction set include nothing
// else, since shared inline functions could end up with their instructions.
#pragma once

#include <cstdint>

#include "backends/cpu/products/tile_rows.h"

namespace tessera::backends::cpu {

inline constexpr std::int64_t kS8Rows = 12;     // the most that vectors multiply at a time
inline constexpr std::int64_t kS8Columns = 32;  // of a panel
inline constexpr std::int64_t kS8Lanes = 16;    // the last panel is a whole number of these wide
inline constexpr std::int64_t kS8Group = 4;     // neighbouring bytes of a row that are multiplied together

// Adds another byte z to a quantised result q (before its zero point): round(clamp(own q + other z + shift)) + zero.
struct S8Sum {
  float own = 0, other = 0, shift = 0, low = 0, high = 0;  // low = −zero, high = 255 − zero
  std::int32_t zero = 0;
};

// The product of some rows and some panels of columns: sum(i, j) = start[j] + sum over k of a(i, k) b(k, j), modulo
// 2^32; or a part of the depth: the panels hold `panel_groups` groups, and those from `first_group` on are multiplied.
struct IndirectProductS8 {
  std::int64_t rows = 0;             // at most tile_rows
  std::int64_t tile_rows = kS8Rows;  // of the multiplier
  // For tile registers: `half_rows` is the number of rows in the first of two tiles. If segments of A do not end at a
  // step of 64 bytes, `segment_groups` is the number of groups in a segment of A, and `groups` counts those of its
  // weights, whole steps: the last step of A begins early enough to end with the segment, and meets zero weights where
  // it overlaps.
  std::int64_t half_rows = 16, segment_groups = 0;
  const TileRun* spaced = nullptr;            // or null; replaces `left` if the rows of each segment are evenly spaced
  std::int64_t segments = 0, groups = 0;      // segments of a row of A; groups of a segment
  const std::uint8_t* const* left = nullptr;  // segment s of row i at left[s * tile_rows + i]
  std::int64_t skipped = 0;                   // bytes of each segment before the multiplied ones
  const std::int8_t* right = nullptr;         // panels one after the other, each [panel_groups][width][kS8Group]
  std::int64_t panel_groups = 0, first_group = 0;
  std::int64_t columns = 0;            // of the panels together
  bool pairs_fit = false;              // s8_pairs_fit(right)
  const std::int8_t* ahead = nullptr;  // weights of later products, prefetched to the second-level cache
  std::int64_t ahead_bytes = 0;
  const std::int32_t* start = nullptr;  // per column, rounded up to kS8Lanes
  std::int32_t* partial = nullptr;  // sums between parts of the depth, [panel][tile_rows][kS8Columns]; 64-byte aligned
  bool begins = true,
       ends = true;  // whether this part of the depth is the first, the last; otherwise `partial` is read, written

  // The output is exactly one of `sums`, `real` and `quantised`:
  std::int32_t* sums = nullptr;       // the sums
  float* real = nullptr;              // clamp(factor[j] sum + offset[j])
  std::uint8_t* quantised = nullptr;  // round(clamp(factor[j] sum + offset[j])) + zero; the bounds make it fit
  std::int64_t ldc = 0;               // elements from row to row of the output
  const float *factor = nullptr, *offset = nullptr;  // by column, rounded up to kS8Lanes
  float low = 0, high = 0;
  // If not null: window_sums[i] shift[j] is added to the sum of row i and column j before it is scaled.
  const std::int32_t *window_sums = nullptr, *shift = nullptr;  // by row; by column, rounded up to kS8Lanes
  std::int32_t zero = 0;
  const std::uint8_t* addend =
      nullptr;  // or null: the bytes to add by `sum`, in the layout of `quantised`; may be the same memory
  S8Sum sum;
};

// Whether any two neighbouring weights times any unsigned bytes have a sum of products that fits 16 bits. This holds
// for weights quantised to 7 bits, as is usual for processors without VNNI. Products are exact either way, but faster
// on such processors if it holds.
bool s8_pairs_fit(const std::int8_t* weights, std::int64_t count);

void multiply_s8_scalar(const IndirectProductS8& product);
void multiply_s8_avx2(const IndirectProductS8& product);
void multiply_s8_avx512vnni(const IndirectProductS8& product);
void multiply_s8_amx(const IndirectProductS8& product);
void multiply_s8_emulated(const IndirectProductS8& product);  // multiply_s8_amx on any machine

// Writes the sums of rows × `columns` of one panel, [row][kS8Columns], to the product's output.
void store_s8_sums(const IndirectProductS8& product, const std::int32_t* sums, std::int64_t first_column,
                   std::int64_t columns);

// A function that multiplies, and the shapes it takes. All multipliers give results that are equal bit for bit.
struct MultiplierS8 {
  void (*multiply)(const IndirectProductS8&);
  std::int64_t tile_rows;   // the most rows at a time
  std::int64_t depth_step;  // groups that are summed together
  bool tiles;               // whether it uses tile registers: see TileScope
};
// Returns the multiplier for products of `rows` rows with the active instruction set.
MultiplierS8 multiplier_s8(std::int64_t rows);
// Returns the multiplier without tile registers, whose panels may have any number of groups.
MultiplierS8 vector_multiplier_s8();

}  // namespace tessera::backends::cpu
