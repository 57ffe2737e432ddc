// Architectures: 75 80 86 89 90a 100 120
// Gate: resize_f32 registers 96 shared 0 instruction STG
// Gate: resize_f16 registers 96 shared 0 instruction STG
// Gate: resize_bf16 registers 96 shared 0 instruction STG
#include <math.h>

#include "backends/cuda/kernels/movement/resize.h"

namespace tessera::cuda {
namespace {

// The two elements along an axis that a position lies between, and the weight of the second.
struct ResizeTaps {
  int first, second;
  float weight;
};

__device__ __forceinline__ int within(double position, int size) {
  return static_cast<int>(fmin(fmax(position, 0.0), static_cast<double>(size - 1)));
}

__device__ __forceinline__ ResizeTaps taps_of(const ResizeAxis& axis, int at, ResizeRounding rounding) {
  const double position = (at + axis.shift) * axis.multiplier / axis.divisor + axis.offset;
  if (rounding == ResizeRounding::linear) {
    const double first = floor(position);
    return {within(first, axis.x_size), within(first + 1.0, axis.x_size), static_cast<float>(position - first)};
  }
  const double nearest = rounding == ResizeRounding::floor          ? floor(position)
                         : rounding == ResizeRounding::ceil         ? ceil(position)
                         : rounding == ResizeRounding::prefer_floor ? ceil(position - 0.5)
                                                                    : floor(position + 0.5);
  const int element = within(nearest, axis.x_size);
  return {element, element, 0.0f};
}

template <class T>
__device__ __forceinline__ void resize(const ResizeParameters& p) {
  const T* const x = static_cast<const T*>(p.x);
  const ResizeAxis &a = p.axes[0], &b = p.axes[1], &c = p.axes[2];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kResizeThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kResizeThreads + static_cast<int>(threadIdx.x);
       element < p.count; element += step) {
    const std::int64_t inner = element % p.inner;
    std::int64_t rest = element / p.inner;
    const ResizeTaps k = taps_of(c, static_cast<int>(rest % c.y_size), p.rounding);
    rest /= c.y_size;
    const ResizeTaps j = taps_of(b, static_cast<int>(rest % b.y_size), p.rounding);
    rest /= b.y_size;
    const ResizeTaps i = taps_of(a, static_cast<int>(rest % a.y_size), p.rounding);
    const std::int64_t outer = rest / a.y_size;
    float sum = 0;
#pragma unroll
    for (int corner = 0; corner < 8; ++corner) {
      const float weight = (corner & 4 ? i.weight : 1.0f - i.weight) * (corner & 2 ? j.weight : 1.0f - j.weight) *
                           (corner & 1 ? k.weight : 1.0f - k.weight);
      if (weight == 0.0f) continue;
      const std::int64_t row =
          (outer * a.x_size + (corner & 4 ? i.second : i.first)) * b.x_size + (corner & 2 ? j.second : j.first);
      sum += weight * to_float(x[(row * c.x_size + (corner & 1 ? k.second : k.first)) * p.inner + inner]);
    }
    static_cast<T*>(p.y)[element] = from_float<T>(sum);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kResizeThreads) resize_f32(const __grid_constant__ ResizeParameters p) {
  resize<float>(p);
}
extern "C" __global__ void __launch_bounds__(kResizeThreads) resize_f16(const __grid_constant__ ResizeParameters p) {
  resize<Float16>(p);
}
extern "C" __global__ void __launch_bounds__(kResizeThreads) resize_bf16(const __grid_constant__ ResizeParameters p) {
  resize<Bfloat16>(p);
}

}  // namespace tessera::cuda
