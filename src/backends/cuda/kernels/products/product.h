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

#include "backends/cuda/kernels/device_code.h"
#include "backends/cuda/kernels/products/product_parameters.h"

namespace tessera::cuda {

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
