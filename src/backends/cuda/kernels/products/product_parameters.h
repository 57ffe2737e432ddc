// The arguments of the matrix products of product.h, and the shapes of their launches.
#pragma once

#include <cstdint>

namespace tessera::cuda {

enum class ProductActivation : int { none, relu, gelu, silu, sigmoid, tanh };

// The epilogue: activation(sum × scale + bias + residual), in float. gelu is the exact one, by the error function.
struct ProductParameters {
  const void* a;
  const void* b;
  void* d;
  const float* bias;     // one per column, or null
  const float* scale;    // one per column, or null for 1; for int8 the product of both operands' scales
  const void* residual;  // [rows, columns] of d's type and stride, or null
  void* partial;         // [splits, rows, columns] of float or int32, or null; 1 split then
  int rows, columns, depth;
  std::int64_t a_stride, b_stride, d_stride;  // from row to row, in elements
  int splits;                                 // the grid's z
  ProductActivation activation;
};

// Launch shapes: the grid is (columns / kColumns, rows / kRows, splits), both rounded up.
struct ProductLaunch {
  int rows, columns, threads;
};
inline constexpr ProductLaunch kTilesTile{64, 64, 256}, kWmmaTile{64, 64, 128}, kMmaTile{128, 128, 256},
    kWgmmaTile{128, 128, 384};
// Dynamic shared memory of product_wgmma_*, and the boxes of its tensor maps: 128 bytes by 128 rows, swizzled by 128.
inline constexpr int kWgmmaStages = 4, kWgmmaSharedBytes = kWgmmaStages * 2 * 128 * 128;

}  // namespace tessera::cuda
