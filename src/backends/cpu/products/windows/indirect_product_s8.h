// The indirect product (indirect_product_f32.h) of bytes: unsigned rows that lie anywhere, times packed signed weights,
// with exact sums of 32 bits. Self-contained: files compiled for one instruction set include nothing else that could
// leave their instructions in shared inline functions.
#pragma once

#include <cstdint>

#include "backends/cpu/products/tile_rows.h"

namespace tessera::backends::cpu {

inline constexpr std::int64_t kS8Rows = 12;     // that vectors multiply at most at a time
inline constexpr std::int64_t kS8Columns = 32;  // of a panel
inline constexpr std::int64_t kS8Lanes = 16;    // the last panel is a whole number of these wide
inline constexpr std::int64_t kS8Group = 4;     // neighbouring bytes of a row that are multiplied together

// The sum of a result before its zero point is added, q, and of another byte z: round(clamp(own q + other z + shift)) +
// zero.
struct S8Sum {
  float own = 0, other = 0, shift = 0, low = 0, high = 0;  // low = −zero, high = 255 − zero
  std::int32_t zero = 0;
};

// Some rows times some panels of columns: sum(i, j) = start[j] + sum over k of a(i, k) b(k, j), modulo 2^32. Maybe for
// a part of the depth only: the panels hold `panel_groups` groups, of which those from `first_group` on are multiplied.
struct IndirectProductS8 {
  std::int64_t rows = 0;             // at most tile_rows
  std::int64_t tile_rows = kS8Rows;  // of the multiplier
  // By tile registers: rows of the first of two tiles; and, where segments of A end in a part of a step of 64 bytes,
  // the groups of one. `groups` are then those of its weights, whole steps: the last step of A begins so much earlier,
  // and meets weights of zero there.
  std::int64_t half_rows = 16, segment_groups = 0;
  const TileRun* spaced = nullptr;            // or where the rows of each segment lie evenly, instead of `left`
  std::int64_t segments = 0, groups = 0;      // of a row of A; groups of kS8Group bytes of a segment
  const std::uint8_t* const* left = nullptr;  // segment s of row i at left[s * tile_rows + i]
  std::int64_t skipped = 0;                   // bytes of each segment before them
  const std::int8_t* right = nullptr;         // panels one after the other, each [panel_groups][width][kS8Group]
  std::int64_t panel_groups = 0, first_group = 0;
  std::int64_t columns = 0;            // of the panels together
  bool pairs_fit = false;              // s8_pairs_fit(right)
  const std::int8_t* ahead = nullptr;  // weights of products to come, to bring to the second-level cache meanwhile
  std::int64_t ahead_bytes = 0;
  const std::int32_t* start = nullptr;  // as many, rounded up to kS8Lanes
  std::int32_t* partial = nullptr;  // sums between parts of the depth, [panel][tile_rows][kS8Columns]; 64-byte aligned
  bool begins = true,
       ends = true;  // whether this part starts at `start`, and is the last: otherwise `partial` is read, written

  // Where the sums go, one of:
  std::int32_t* sums = nullptr;                      // as they are
  float* real = nullptr;                             // clamp(factor[j] sum + offset[j])
  std::uint8_t* quantised = nullptr;                 // round(the same) + zero; the bounds are such that it fits
  std::int64_t ldc = 0;                              // elements from row to row there
  const float *factor = nullptr, *offset = nullptr;  // by column, rounded up to kS8Lanes
  float low = 0, high = 0;
  // Or null: window_sums[i] shift[j] more is in the sum of row i and column j before it becomes a real number.
  const std::int32_t *window_sums = nullptr, *shift = nullptr;  // by row; by column, rounded up to kS8Lanes
  std::int32_t zero = 0;
  const std::uint8_t* addend =
      nullptr;  // or null: laid out as `quantised`, where the sums go then; maybe the same memory
  S8Sum sum;
};

// Whether the products of two neighbouring weights with any unsigned bytes sum to 16 bits: so they do where weights
// were quantised to 7 bits, as is usual for processors without VNNI. Products are exact either way, but faster then on
// such processors.
bool s8_pairs_fit(const std::int8_t* weights, std::int64_t count);

void multiply_s8_scalar(const IndirectProductS8& product);
void multiply_s8_avx2(const IndirectProductS8& product);
void multiply_s8_avx512vnni(const IndirectProductS8& product);
void multiply_s8_amx(const IndirectProductS8& product);
void multiply_s8_emulated(const IndirectProductS8& product);  // what multiply_s8_amx does, anywhere

// Sums of rows × `columns` of one panel, [row][kS8Columns], to where the product wants them.
void store_s8_sums(const IndirectProductS8& product, const std::int32_t* sums, std::int64_t first_column,
                   std::int64_t columns);

// How products of bytes are multiplied. Results are the same bits, whatever it is.
struct MultiplierS8 {
  void (*multiply)(const IndirectProductS8&);
  std::int64_t tile_rows;   // at a time, at most
  std::int64_t depth_step;  // groups that are summed together
  bool tiles;               // by tile registers: see TileScope
};
// For products of so many rows, with the instruction set active now.
MultiplierS8 multiplier_s8(std::int64_t rows);
// The one without tile registers, whose panels have any number of groups.
MultiplierS8 vector_multiplier_s8();

}  // namespace tessera::backends::cpu
