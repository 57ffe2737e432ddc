// Softmax of rows, by the row's maximum and the sum of exponentials.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: softmax_f32 registers 64 shared 64 instruction MUFU
// Gate: softmax_f16 registers 64 shared 64 instruction MUFU
// Gate: softmax_bf16 registers 64 shared 64 instruction MUFU
#include <math.h>

#include "backends/cuda/kernels/rows/block_reduction.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ __forceinline__ void softmax_row(const SoftmaxParameters& p) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * p.columns;
  const T* x = static_cast<const T*>(p.x) + begin;
  T* y = static_cast<T*>(p.y) + begin;
  const int thread = static_cast<int>(threadIdx.x);
  float most = -INFINITY;
  for (int i = thread; i < p.columns; i += kRowThreads) most = Maximum::combine(most, to_float(x[i]));
  most = reduce_block<Maximum>(most);
  float sum = 0;
  for (int i = thread; i < p.columns; i += kRowThreads) sum += expf(to_float(x[i]) - most);
  sum = reduce_block<Summation>(sum);
  const float scale = 1.0f / sum, shift = logf(sum);
  for (int i = thread; i < p.columns; i += kRowThreads) {
    const float value = to_float(x[i]) - most;
    y[i] = from_float<T>(p.logarithm ? value - shift : expf(value) * scale);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRowThreads) softmax_f32(SoftmaxParameters p) {
  softmax_row<float>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) softmax_f16(SoftmaxParameters p) {
  softmax_row<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) softmax_bf16(SoftmaxParameters p) {
  softmax_row<Bfloat16>(p);
}

}  // namespace tessera::cuda
