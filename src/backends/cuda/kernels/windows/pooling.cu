// Pooling: the maximum or the mean of each window.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: pooling_f32 registers 64 shared 0 instruction LDG
// Gate: pooling_f16 registers 64 shared 0 instruction LDG
// Gate: pooling_bf16 registers 64 shared 0 instruction LDG
#include <math.h>

#include "backends/cuda/kernels/windows/window_place.h"

namespace tessera::cuda {
namespace {

// Whether the position lies inside x, or also (`pads`) in its padding.
__device__ __forceinline__ bool lies_inside(const PoolingParameters& p, int i, int j, int k, bool pads) {
  const int position[kWindowAxes] = {i, j, k};
  bool inside = true;
#pragma unroll
  for (int axis = 0; axis < kWindowAxes; ++axis) {
    const int begin = pads ? -p.geometry.pad_begin[axis] : 0;
    const int end = p.geometry.x_size[axis] + (pads ? p.pad_end[axis] : 0);
    inside = inside && position[axis] >= begin && position[axis] < end;
  }
  return inside;
}

template <class T>
__device__ __forceinline__ float pool_window(const PoolingParameters& p, const WindowPlace& place) {
  const WindowGeometry& g = p.geometry;
  const T* x = static_cast<const T*>(p.x) +
               (static_cast<std::int64_t>(place.batch) * g.channels + place.output) * plane_elements(g);
  float most = -INFINITY, sum = 0;
  int count = 0;
  const int taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  for (int tap = 0; tap < taps; ++tap) {
    const int i = tap_position(g, 0, place.at[0], tap / (g.kernel[1] * g.kernel[2]));
    const int j = tap_position(g, 1, place.at[1], tap / g.kernel[2] % g.kernel[1]);
    const int k = tap_position(g, 2, place.at[2], tap % g.kernel[2]);
    const bool inside = lies_inside(p, i, j, k, false);
    if (inside || (p.kind == PoolingKind::average_with_pads && lies_inside(p, i, j, k, true))) ++count;
    if (!inside) continue;
    const float value = to_float(x[plane_offset(g, i, j, k)]);
    most = value > most || value != value ? value : most;
    sum += value;
  }
  return p.kind == PoolingKind::maximum ? most : sum / static_cast<float>(count);
}

template <class T>
__device__ __forceinline__ void pooling(const PoolingParameters& p) {
  const std::int64_t count = window_elements(p.geometry), step = static_cast<std::int64_t>(gridDim.x) * kWindowThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kWindowThreads + static_cast<int>(threadIdx.x);
       element < count; element += step) {
    static_cast<T*>(p.y)[element] = from_float<T>(pool_window<T>(p, window_place(p.geometry, element)));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWindowThreads) pooling_f32(PoolingParameters p) {
  pooling<float>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) pooling_f16(PoolingParameters p) {
  pooling<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) pooling_bf16(PoolingParameters p) {
  pooling<Bfloat16>(p);
}

}  // namespace tessera::cuda
