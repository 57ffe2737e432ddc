// Second rung: 64×64 tiles of d by four warps of 32×32, multiplied as 16×16 fragments by the tensor cores. Shared by
// the files of product_wmma_*, which differ in the architectures that have their instructions.
#pragma once

#include "backends/cuda/kernels/products/epilogue.h"

namespace tessera::cuda {

inline constexpr int kWmmaSide = 64, kWmmaStep = 32, kWmmaSumStride = 68;

// 16 elements of the depth for each row; rows are a multiple of 16 bytes apart, fragments begin at one of 32.
template <class T>
struct alignas(128) WmmaTiles {
  static constexpr int kStride = sizeof(T) == 1 ? 16 : 24;
  T a[kWmmaStep / 16][kWmmaSide][kStride], b[kWmmaStep / 16][kWmmaSide][kStride];
};
template <class Sum>
struct alignas(128) WmmaSums {
  Sum values[kWmmaSide][kWmmaSumStride];
};

template <class T, class Slabs>
__device__ __forceinline__ void load_slabs(Slabs& slabs, const T* matrix, std::int64_t stride, int first_row, int rows,
                                           int first, int depth) {
  for (int i = static_cast<int>(threadIdx.x); i < kWmmaSide * kWmmaStep; i += 128) {
    const int row = i / kWmmaStep, k = i % kWmmaStep, at = first_row + row;
    T value{};
    if (at < rows && first + k < depth) value = matrix[at * stride + first + k];
    slabs[k / 16][row][k % 16] = value;
  }
}

// Fragments: kRegisters, load_a, load_b, multiply and store of ptx.h for T.
template <class T, class Fragments>
__device__ __forceinline__ void multiply_wmma(const ProductParameters& p) {
  using Sum = typename ProductTypes<T>::Sum;
  auto& tiles = static_shared<WmmaTiles<T>>();
  auto& results = static_shared<WmmaSums<Sum>>();
  const int first_row = static_cast<int>(blockIdx.y) * kWmmaSide,
            first_column = static_cast<int>(blockIdx.x) * kWmmaSide;
  const int warp = static_cast<int>(threadIdx.x) / 32, warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  Sum sums[2][2][8] = {};
  const DepthSteps steps = steps_of_split(p, kWmmaStep);
  for (int step = steps.begin; step < steps.end; ++step) {
    load_slabs(tiles.a, static_cast<const T*>(p.a), p.a_stride, first_row, p.rows, step * kWmmaStep, p.depth);
    load_slabs(tiles.b, static_cast<const T*>(p.b), p.b_stride, first_column, p.columns, step * kWmmaStep, p.depth);
    __syncthreads();
#pragma unroll
    for (int slab = 0; slab < kWmmaStep / 16; ++slab) {
      std::uint32_t a[2][Fragments::kRegisters], b[2][Fragments::kRegisters];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Fragments::load_a(a[i], tiles.a[slab][warp_row + 16 * i], WmmaTiles<T>::kStride);
        Fragments::load_b(b[i], tiles.b[slab][warp_column + 16 * i], WmmaTiles<T>::kStride);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) Fragments::multiply(sums[i / 2][i % 2], a[i / 2], b[i % 2]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Fragments::store(&results.values[warp_row + i / 2 * 16][warp_column + i % 2 * 16], sums[i / 2][i % 2],
                     kWmmaSumStride);
  }
  __syncthreads();
  store_patch<T>(p, results.values[0], kWmmaSumStride, kWmmaSide, kWmmaSide, first_row, first_column,
                 static_cast<int>(threadIdx.x), 128);
}

}  // namespace tessera::cuda
