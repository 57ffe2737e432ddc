// Layer and RMS normalisation of rows. The variance is the mean of squared distances from the mean, in a pass of its
// own, so that rows far from zero lose nothing.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: layer_normalisation_f32 registers 64 shared 64 instruction MUFU
// Gate: layer_normalisation_f16 registers 64 shared 64 instruction MUFU
// Gate: layer_normalisation_bf16 registers 64 shared 64 instruction MUFU
// Gate: rms_normalisation_f32 registers 64 shared 64 instruction MUFU
// Gate: rms_normalisation_f16 registers 64 shared 64 instruction MUFU
// Gate: rms_normalisation_bf16 registers 64 shared 64 instruction MUFU
#include "backends/cuda/kernels/rows/block_reduction.h"

namespace tessera::cuda {
namespace {

template <class T, bool kCentred>
__device__ __forceinline__ void normalise_row(const NormalisationParameters& p) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * p.columns;
  const T* x = static_cast<const T*>(p.x) + begin;
  const T* weight = static_cast<const T*>(p.weight);
  const T* bias = static_cast<const T*>(p.bias);
  T* y = static_cast<T*>(p.y) + begin;
  const int thread = static_cast<int>(threadIdx.x);
  const float count = static_cast<float>(p.columns);
  float mean = 0;
  if constexpr (kCentred) {
    for (int i = thread; i < p.columns; i += kRowThreads) mean += to_float(x[i]);
    mean = reduce_block<Summation>(mean) / count;
  }
  float squares = 0;
  for (int i = thread; i < p.columns; i += kRowThreads) {
    const float distance = to_float(x[i]) - mean;
    squares += distance * distance;
  }
  const float scale = 1.0f / sqrtf(reduce_block<Summation>(squares) / count + p.epsilon);
  for (int i = thread; i < p.columns; i += kRowThreads) {
    float value = (to_float(x[i]) - mean) * scale;
    if (weight != nullptr) value *= to_float(weight[i]);
    if (bias != nullptr) value += to_float(bias[i]);
    y[i] = from_float<T>(value);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRowThreads) layer_normalisation_f32(NormalisationParameters p) {
  normalise_row<float, true>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) layer_normalisation_f16(NormalisationParameters p) {
  normalise_row<Float16, true>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) layer_normalisation_bf16(NormalisationParameters p) {
  normalise_row<Bfloat16, true>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) rms_normalisation_f32(NormalisationParameters p) {
  normalise_row<float, false>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) rms_normalisation_f16(NormalisationParameters p) {
  normalise_row<Float16, false>(p);
}
extern "C" __global__ void __launch_bounds__(kRowThreads) rms_normalisation_bf16(NormalisationParameters p) {
  normalise_row<Bfloat16, false>(p);
}

}  // namespace tessera::cuda
