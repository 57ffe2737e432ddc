// C = clamp(bias + Σ A·B + D) for rows of A that lie anywhere: each row is a list of pointers to segments of equal
// length, so a convolution with the channels last needs no copy of its windows (M. Dukhan, "The Indirect Convolution
// Algorithm", arXiv:1907.02129).
//
// A sum runs over the segments in their order in one accumulator, so results do not depend on how rows and columns are
// split.
#pragma once

#include <cstdint>
#include <limits>

namespace tessera::backends::cpu {

// Some rows times some panels of columns.
struct IndirectProduct {
  static constexpr std::int64_t kMostRows = 12;

  std::int64_t rows = 0;                  // at most isa.rows
  std::int64_t segments = 0, length = 0;  // of a row of A; length in floats
  // Segment s of row i at left[s * kMostRows + i]; null for row 0 where the segment is zero in all rows, which is
  // skipped then.
  const float* const* left = nullptr;
  // Panels one after the other, each [segments * length][width], where the width is isa.columns, or for the last panel
  // what is left rounded up to whole vectors.
  const float* right = nullptr;
  std::int64_t columns = 0;       // of the panels together
  const float* bias = nullptr;    // as many, rounded up to whole vectors
  const float* addend = nullptr;  // D, laid out as C; or null
  float* c = nullptr;
  std::int64_t ldc = 0;  // of C and D
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  // Not null: weights that products to come read. With AVX-512, so many floats of them are fetched into the cache for
  // each step of a panel's depth.
  const float* next = nullptr;
  static constexpr std::int64_t kNextFloats = 8;
};

struct IndirectProductIsa {
  const char* name;
  std::int64_t rows, columns, lanes;
  void (*multiply)(const IndirectProduct&);
};

// For the instruction set active now.
const IndirectProductIsa& indirect_product_isa();

}  // namespace tessera::backends::cpu
