// Sums and maxima over the values of a block's 256 threads.
#pragma once

#include "backends/cuda/kernels/rows/rows.h"

namespace tessera::cuda {

struct Summation {
  static __device__ __forceinline__ float combine(float a, float b) { return a + b; }
};
struct Maximum {  // not-a-number wins
  static __device__ __forceinline__ float combine(float a, float b) { return a > b || a != a ? a : b; }
};

struct WarpResults {
  float values[kRowThreads / 32];
};

// Returns the combined value to all threads of the block. Order is fixed: first within warps, then over them.
template <class Combination>
__device__ __forceinline__ float reduce_block(float value) {
  auto& results = static_shared<WarpResults>().values;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = Combination::combine(value, __shfl_xor_sync(kAllLanes, value, step));
  if (threadIdx.x % 32 == 0) results[threadIdx.x / 32] = value;
  __syncthreads();
  float total = results[0];
#pragma unroll
  for (int warp = 1; warp < kRowThreads / 32; ++warp) total = Combination::combine(total, results[warp]);
  __syncthreads();  // the next reduction writes there
  return total;
}

}  // namespace tessera::cuda
