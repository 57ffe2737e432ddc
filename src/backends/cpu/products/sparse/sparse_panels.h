// Multiplies a panel of outputs with up to four rows, for each form of sparse weights (sparse_weights.h). Weights are
// float32 or bfloat16, data and sums float32.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr int kMostSparseRows = 4, kMostSparseLanes = 16;

// A panel of the weights, for up to kMostSparseRows rows. `sums` receives a row of kMostSparseLanes for each.
struct SparsePanel {
  const float* x = nullptr;
  std::int64_t row_stride = 0;
  const void* values = nullptr;                           // floats, or bits of bfloat16 numbers
  const std::uint32_t* places = nullptr;                  // blocks; or the words of two_of_four
  const std::uint8_t *slots = nullptr, *bytes = nullptr;  // segments
  std::int64_t count = 0;                                 // of vectors, of words per lane, or of segments
  float* sums = nullptr;
};
using PanelFunction = void (*)(const SparsePanel&);
struct SparseFunctions {
  int lanes;
  PanelFunction blocks[kMostSparseRows], two_of_four[kMostSparseRows], segments[kMostSparseRows];  // by rows - 1
};

// Returns the functions of the active instruction set, for float32 or bfloat16 weights.
SparseFunctions sparse_functions(bool bf16 = false);

}  // namespace tessera::backends::cpu
