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
  const std::int64_t plane = plane_elements(g);
  const T* x =
      static_cast<const T*>(p.x) +
      (static_cast<std::int64_t>(place.batch) * g.channels + static_cast<std::int64_t>(group) * per_group) * plane;
  const T* w = static_cast<const T*>(p.weights) +
               static_cast<std::int64_t>(place.output) * per_group * g.kernel[0] * g.kernel[1] * g.kernel[2];
  float sum = 0;
  for (int channel = 0; channel < per_group; ++channel, x += plane) {
#pragma unroll 1
    for (int a = 0; a < g.kernel[0]; ++a) {
      const int i = tap_position(g, 0, place.at[0], a);
#pragma unroll 1
      for (int b = 0; b < g.kernel[1]; ++b) {
        const int j = tap_position(g, 1, place.at[1], b);
#pragma unroll 1
        for (int c = 0; c < g.kernel[2]; ++c, ++w) {
          const int k = tap_position(g, 2, place.at[2], c);
          if (i < 0 || i >= g.x_size[0] || j < 0 || j >= g.x_size[1] || k < 0 || k >= g.x_size[2]) continue;
          sum += to_float(x[plane_offset(g, i, j, k)]) * to_float(*w);
        }
      }
    }
  }
  return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_f32(ConvParameters p) {
  write_windows<float, window_sum<float>>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_f16(ConvParameters p) {
  write_windows<Float16, window_sum<Float16>>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_direct_bf16(ConvParameters p) {
  write_windows<Bfloat16, window_sum<Bfloat16>>(p);
}

}  // namespace tessera::cuda
