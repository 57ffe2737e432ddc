// The element of y that a thread computes, and the windows over x.
#pragma once

#include "backends/cuda/kernels/windows/windows.h"

namespace tessera::cuda {

// An element of y by its number.
struct WindowPlace {
  int batch, output, at[kWindowAxes];
};

__device__ __forceinline__ WindowPlace window_place(const WindowGeometry& g, std::int64_t element) {
  WindowPlace place;
#pragma unroll
  for (int axis = kWindowAxes - 1; axis >= 0; --axis) {
    place.at[axis] = static_cast<int>(element % g.y_size[axis]);
    element /= g.y_size[axis];
  }
  place.output = static_cast<int>(element % g.outputs);
  place.batch = static_cast<int>(element / g.outputs);
  return place;
}

__device__ __forceinline__ std::int64_t window_elements(const WindowGeometry& g) {
  return static_cast<std::int64_t>(g.batch) * g.outputs * g.y_size[0] * g.y_size[1] * g.y_size[2];
}

// The position in x, along an axis, of a tap of the window at y's position `at`; may lie outside.
__device__ __forceinline__ int tap_position(const WindowGeometry& g, int axis, int at, int tap) {
  return at * g.stride[axis] - g.pad_begin[axis] + tap * g.dilation[axis];
}

__device__ __forceinline__ std::int64_t plane_elements(const WindowGeometry& g) {
  return static_cast<std::int64_t>(g.x_size[0]) * g.x_size[1] * g.x_size[2];
}

// The element of a plane of x.
__device__ __forceinline__ std::int64_t plane_offset(const WindowGeometry& g, int i, int j, int k) {
  return (static_cast<std::int64_t>(i) * g.x_size[1] + j) * g.x_size[2] + k;
}

// Writes what `sum` makes of the window of each element of y, with bias and ReLU.
template <class T, float (*sum)(const ConvParameters&, const WindowPlace&)>
__device__ __forceinline__ void write_windows(const ConvParameters& p) {
  const std::int64_t count = window_elements(p.geometry), step = static_cast<std::int64_t>(gridDim.x) * kWindowThreads;
  for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kWindowThreads + static_cast<int>(threadIdx.x);
       element < count; element += step) {
    const WindowPlace place = window_place(p.geometry, element);
    float value = sum(p, place);
    if (p.bias != nullptr) value += p.bias[place.output];
    if (p.relu) value = value > 0.0f || value != value ? value : 0.0f;
    static_cast<T*>(p.y)[element] = from_float<T>(value);
  }
}

}  // namespace tessera::cuda
