// The end of every matrix product: what happens to a sum before it is stored.
#pragma once

#include "backends/cuda/kernels/products/product.h"

namespace tessera::cuda {

// The type of d and of the sums for operands of type T.
template <class T>
struct ProductTypes {
  using Result = T;
  using Sum = float;
};
template <>
struct ProductTypes<std::int8_t> {
  using Result = float;
  using Sum = int;
};

__device__ __forceinline__ float activate(ProductActivation activation, float x) {
  switch (activation) {
    case ProductActivation::none:
      return x;
    case ProductActivation::relu:
      return x > 0.0f ? x : x != x ? x : 0.0f;
    case ProductActivation::gelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case ProductActivation::silu:
      return x / (1.0f + expf(-x));
    case ProductActivation::sigmoid:
      return 1.0f / (1.0f + expf(-x));
    case ProductActivation::tanh:
      return tanhf(x);
  }
  return x;
}

template <class T>
__device__ __forceinline__ void finish_sum(const ProductParameters& p, int row, int column, float sum) {
  using Result = typename ProductTypes<T>::Result;
  const std::int64_t at = row * p.d_stride + column;
  float value = p.scale != nullptr ? sum * p.scale[column] : sum;
  if (p.bias != nullptr) value += p.bias[column];
  if (p.residual != nullptr) value += to_float(static_cast<const Result*>(p.residual)[at]);
  static_cast<Result*>(p.d)[at] = from_float<Result>(activate(p.activation, value));
}

// Stores the sum of d's element, or this split's part of it. Places outside d are left alone.
template <class T, class Sum>
__device__ __forceinline__ void store_sum(const ProductParameters& p, int row, int column, Sum sum) {
  if (row >= p.rows || column >= p.columns) return;
  if (p.partial != nullptr) {
    const std::int64_t split_row = static_cast<std::int64_t>(blockIdx.z) * p.rows + row;
    static_cast<Sum*>(p.partial)[split_row * p.columns + column] = sum;
  } else {
    finish_sum<T>(p, row, column, static_cast<float>(sum));
  }
}

// Stores a patch of sums that lies in shared memory, `stride` elements from row to row, by `threads` threads of which
// the calling one is number `thread`. Neighbouring threads store neighbouring elements, and the epilogue is compiled
// once.
template <class T, class Sum>
__device__ __forceinline__ void store_patch(const ProductParameters& p, const Sum* patch, int stride, int rows,
                                            int columns, int first_row, int first_column, int thread, int threads) {
#pragma unroll 1
  for (int i = thread; i < rows * columns; i += threads) {
    const int row = i / columns, column = i % columns;
    store_sum<T>(p, first_row + row, first_column + column, patch[row * stride + column]);
  }
}

// The steps of the depth, `step` elements each, that this split sums: [begin, end).
struct DepthSteps {
  int begin, end;
};
__device__ __forceinline__ DepthSteps steps_of_split(const ProductParameters& p, int step) {
  const int steps = (p.depth + step - 1) / step;
  const int per_split = (steps + p.splits - 1) / p.splits;
  const int begin = static_cast<int>(blockIdx.z) * per_split;
  return {begin < steps ? begin : steps, begin + per_split < steps ? begin + per_split : steps};
}

}  // namespace tessera::cuda
