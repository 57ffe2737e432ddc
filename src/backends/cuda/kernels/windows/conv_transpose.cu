// Transposed convolution: each thread sums over the elements of x whose windows reach its element of y.
//
// Architectures: 75 80 86 89 90a 100 120
// Gate: conv_transpose_f32 registers 96 shared 0 instruction FFMA
// Gate: conv_transpose_f16 registers 96 shared 0 instruction FFMA
// Gate: conv_transpose_bf16 registers 96 shared 0 instruction FFMA
#include "backends/cuda/kernels/windows/window_place.h"

namespace tessera::cuda {
namespace {

// The position in x, along an axis, whose window has its tap at y's position `at`; -1 where there is none.
__device__ __forceinline__ int source_position(const WindowGeometry& g, int axis, int at, int tap) {
  const int reach = at + g.pad_begin[axis] - tap * g.dilation[axis];
  if (reach < 0 || reach % g.stride[axis] != 0) return -1;
  const int position = reach / g.stride[axis];
  return position < g.x_size[axis] ? position : -1;
}

template <class T>
__device__ __forceinline__ float window_sum(const ConvParameters& p, const WindowPlace& place) {
  const WindowGeometry& g = p.geometry;
  const int per_group = g.channels / p.groups, outputs = g.outputs / p.groups, group = place.output / outputs;
  const std::int64_t plane = plane_elements(g);
  const int taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const std::int64_t first = static_cast<std::int64_t>(group) * per_group;
  const T* const x = static_cast<const T*>(p.x) + (static_cast<std::int64_t>(place.batch) * g.channels + first) * plane;
  const T* const w = static_cast<const T*>(p.weights) + (first * outputs + place.output % outputs) * taps;
  float sum = 0;
#pragma unroll 1
  for (int tap = 0; tap < taps; ++tap) {
    const int i = source_position(g, 0, place.at[0], tap / (g.kernel[1] * g.kernel[2]));
    const int j = source_position(g, 1, place.at[1], tap / g.kernel[2] % g.kernel[1]);
    const int k = source_position(g, 2, place.at[2], tap % g.kernel[2]);
    if (i < 0 || j < 0 || k < 0) continue;
    const std::int64_t offset = plane_offset(g, i, j, k);
#pragma unroll 1
    for (int channel = 0; channel < per_group; ++channel)
      sum += to_float(x[channel * plane + offset]) *
             to_float(w[static_cast<std::int64_t>(channel) * outputs * taps + tap]);
  }
  return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_transpose_f32(ConvParameters p) {
  write_windows<float, window_sum<float>>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_transpose_f16(ConvParameters p) {
  write_windows<Float16, window_sum<Float16>>(p);
}
extern "C" __global__ void __launch_bounds__(kWindowThreads) conv_transpose_bf16(ConvParameters p) {
  write_windows<Bfloat16, window_sum<Bfloat16>>(p);
}

}  // namespace tessera::cuda
