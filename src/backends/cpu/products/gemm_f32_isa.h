// The part of the float32 product that is compiled for each instruction set.
#pragma once

#include <cstdint>

#include "backends/cpu/products/gemm_f32.h"

namespace tessera::backends::cpu {

// The product of one panel of A (up to `rows` rows, packed k-major) and a run of B's columns.
struct PanelProduct {
  std::int64_t rows = 0;     // of this panel
  std::int64_t columns = 0;  // of the run
  std::int64_t k = 0;
  const float* left = nullptr;  // element (i, k) at left[k * rows + i]
  // Panel p of the run at right + p * right_panel_stride; element (k, j) of it at [k * right_row_stride + j], where a
  // row stride of 0 means packed: as wide as the panel, rounded up to whole vectors.
  const float* right = nullptr;
  std::int64_t right_panel_stride = 0;
  std::int64_t right_row_stride = 0;
  // If not null: prefetches `next_floats` floats per step of k from this address, for later products; at most
  // kMostNextFloats.
  const float* next = nullptr;
  std::int64_t next_floats = 0;
  static constexpr std::int64_t kMostNextFloats = 16;
  float* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;  // whether to add to the values of C
  const Epilogue* epilogue =
      nullptr;  // null if more blocks of k follow or there is none; its addend is that of C's first element
};

struct GemmF32Isa {
  const char* name;
  std::int64_t rows;     // of a panel of A
  std::int64_t columns;  // of a panel of B
  std::int64_t lanes;    // columns of a narrow panel are rounded up to a multiple
  void (*multiply)(const PanelProduct&);
  // to[k * to_stride + w] = from[w * width_stride + k * k_stride]
  void (*pack)(const float* from, std::int64_t width_stride, std::int64_t k_stride, std::int64_t width, std::int64_t k,
               float* to, std::int64_t to_stride);
};

const GemmF32Isa& gemm_f32_isa();

}  // namespace tessera::backends::cpu
