// C = clamp(bias + Σ A·B + D) for rows of A that lie anywhere in memory: each row is a list of pointers to segments of
// equal length, so a channels-last convolution needs no copy of its windows (M. Dukhan, "The Indirect Convolution
// Algorithm", arXiv:1907.02129).
//
// A sum runs over the segments in order in one accumulator, so results do not depend on how rows and columns are split.
#pragma once

#include <cstdint>
#include <limits>

namespace tessera::backends::cpu {

// The product of some rows and some panels of columns.
struct IndirectProduct {
  static constexpr std::int64_t kMostRows = 12;

  std::int64_t rows = 0;                  // at most isa.rows
  std::int64_t segments = 0, length = 0;  // of a row of A; length in floats
  // Segment s of row i is at left[s * kMostRows + i]; null for row 0 if the segment is zero in all rows, in which case
  // it is skipped.
  const float* const* left = nullptr;
  // Panels one after the other, each [segments * length][width]. The width is isa.columns; in the last panel, the
  // remaining columns rounded up to whole vectors.
  const float* right = nullptr;
  std::int64_t columns = 0;       // of the panels together
  const float* bias = nullptr;    // per column, rounded up to whole vectors
  const float* addend = nullptr;  // D, in the layout of C; or null
  float* c = nullptr;
  std::int64_t ldc = 0;  // of C and D
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  // If not null: weights of later products. With AVX-512, `next_floats` floats of them are prefetched per step of a
  // panel's depth.
  const float* next = nullptr;
  static constexpr std::int64_t kNextFloats = 8;
};

struct IndirectProductIsa {
  const char* name;
  std::int64_t rows, columns, lanes;
  void (*multiply)(const IndirectProduct&);
};

// Returns the functions and tile sizes of the active instruction set.
const IndirectProductIsa& indirect_product_isa();

}  // namespace tessera::backends::cpu
