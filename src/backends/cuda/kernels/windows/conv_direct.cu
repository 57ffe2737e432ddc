// Direct convolution: each thread sums over its window, reading from global memory through the caches.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: conv_direct_f32 registers 96 shared 0 instruction FFMA
// Gate: conv_direct_f16 registers 96 shared 0 instruction FFMA
// Gate: conv_direct_bf16 registers 96 shared 0 instruction FFMA
#include "backends/cuda/kernels/windows/window_place.h"

namespace tessera::cuda {
namespace {

template <class T>
__device__ __forceinline__ float window_sum(const ConvParameters& p, const WindowPlace& place) {
  const WindowGeometry& g = p.geometry;
  const int per_group = g.channels / p.groups, group = place.output / (g.outputs / p.groups);
  const std::int64_t plane = static_cast<std::int64_t>(g.rows) * g.columns;
  const T* x =
      static_cast<const T*>(p.x) +
      (static_cast<std::int64_t>(place.batch) * g.channels + static_cast<std::int64_t>(group) * per_group) * plane;
  const T* w = static_cast<const T*>(p.weights) +
               static_cast<std::int64_t>(place.output) * per_group * g.kernel_rows * g.kernel_columns;
  float sum = 0;
  for (int channel = 0; channel < per_group; ++channel, x += plane) {
#pragma unroll 1
    for (int i = 0; i < g.kernel_rows; ++i) {
      const int row = place.row * g.stride_rows - g.pad_top + i * g.dilation_rows;
#pragma unroll 1
      for (int j = 0; j < g.kernel_columns; ++j, ++w) {
        const int column = place.column * g.stride_columns - g.pad_left + j * g.dilation_columns;
        if (row < 0 || row >= g.rows || column < 0 || column >= g.columns) continue;
        sum += to_float(x[static_cast<std::int64_t>(row) * g.columns + column]) * to_float(*w);
      }
    }
  }
  return sum;
}

template <class T>
__device__ __forceinline__ void conv_direct(const ConvParameters& p) {
  const std::int64_t count = window_elements(p.geometry), step = static_cast<std::int64_t>(gridDim.x) * kWindowThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kWindowThreads + static_cast<int>(threadIdx.x);
       element < count; element += step) {
    const WindowPlace place = window_place(p.geometry, element);
    float value = window_sum<T>(p, place);
    if (p.bias != nullptr) value += p.bias[place.output];
    if (p.relu) value = value > 0.0f || value != value ? value : 0.0f;
    static_cast<T*>(p.y)[element] = from_float<T>(value);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_f32(ConvParameters p) {
  conv_direct<float>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_f16(ConvParameters p) {
  conv_direct<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_bf16(ConvParameters p) {
  conv_direct<Bfloat16>(p);
}

}  // namespace tessera::cuda
