// Matrix products d = epilogue(a × bᵀ) as a ladder of kernels. a is [rows, depth], b [columns, depth] (weights are
// packed so), d [rows, columns]; all row-major. The rungs, slowest first, with what each needs:
//
//   product_tiles_*   tiles in shared memory, arithmetic units          any architecture, any stride and alignment
//   product_wmma_*    tensor cores by wmma                              sm_75 (bf16: sm_80), any stride and alignment
//   product_mma_*     mma.sync, operands by cp.async in three stages    sm_80; a, b and their strides: 16 bytes
//   product_wgmma_*   wgmma, operands by TMA in four stages             sm_90a; a, b and their strides: 16 bytes
//
// Suffixes name the type of a and b: f32, f16, bf16, s8; tf32 is f32 rounded to 10 bits of mantissa. Sums are float,
// for s8 int32. d has the type of a and b; for s8 it is float.
//
// With `partial`, block z of the grid sums the z-th part of the depth and stores plain sums there; product_splits_*
// adds them up in order and applies the epilogue, so that results do not depend on timing.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/device_code.h"

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

extern "C" {
__global__ void product_tiles_f32(ProductParameters p);
__global__ void product_tiles_f16(ProductParameters p);
__global__ void product_tiles_bf16(ProductParameters p);
__global__ void product_tiles_s8(ProductParameters p);
__global__ void product_wmma_f16(ProductParameters p);
__global__ void product_wmma_bf16(ProductParameters p);
__global__ void product_wmma_s8(ProductParameters p);
__global__ void product_mma_f16(ProductParameters p);
__global__ void product_mma_bf16(ProductParameters p);
__global__ void product_mma_tf32(ProductParameters p);
__global__ void product_mma_s8(ProductParameters p);
__global__ void product_wgmma_f16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                  ProductParameters p);
__global__ void product_wgmma_bf16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                   ProductParameters p);
__global__ void product_wgmma_s8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                 ProductParameters p);
// One thread per element of d, 256 a block.
__global__ void product_splits_f32(ProductParameters p);
__global__ void product_splits_f16(ProductParameters p);
__global__ void product_splits_bf16(ProductParameters p);
__global__ void product_splits_s8(ProductParameters p);
}

}  // namespace tessera::cuda
