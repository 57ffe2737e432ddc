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

template <class T>
__device__ __forceinline__ float pool_window(const PoolingParameters& p, const WindowPlace& place) {
  const WindowGeometry& g = p.geometry;
  const T* x = static_cast<const T*>(p.x) +
               (static_cast<std::int64_t>(place.batch) * g.channels + place.output) * g.rows * g.columns;
  float most = -INFINITY, sum = 0;
  int count = 0;
  for (int i = 0; i < g.kernel_rows; ++i) {
    const int row = place.row * g.stride_rows - g.pad_top + i * g.dilation_rows;
    for (int j = 0; j < g.kernel_columns; ++j) {
      const int column = place.column * g.stride_columns - g.pad_left + j * g.dilation_columns;
      const bool inside = row >= 0 && row < g.rows && column >= 0 && column < g.columns;
      const bool counts = inside || (p.kind == PoolingKind::average_with_pads && row < g.rows + p.pad_bottom &&
                                     column < g.columns + p.pad_right);
      if (counts) ++count;
      if (!inside) continue;
      const float value = to_float(x[static_cast<std::int64_t>(row) * g.columns + column]);
      most = value > most || value != value ? value : most;
      sum += value;
    }
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
