// The arguments of the kernels of resize.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kResizeThreads = 256, kResizeAxes = 3;

enum class ResizeRounding : int { floor, ceil, prefer_floor, prefer_ceil, linear };

// Position x of the result lies at (x + shift) * multiplier / divisor + offset in the source. Multiplications and
// divisions by 1 and additions of 0 are exact, so that each transformation of coordinates rounds as it is defined.
struct ResizeAxis {
  int x_size, y_size;
  double shift, multiplier, divisor, offset;
};

// y[outer, axes..., inner] samples x[outer, axes..., inner]; positions beyond an end take the element at the end.
// Unused axes stand in front, with sizes of 1, a divisor of 1 and the rest 0.
struct ResizeParameters {
  const void* x;
  void* y;
  ResizeAxis axes[kResizeAxes];
  std::int64_t inner, count;
  ResizeRounding rounding;
};

}  // namespace tessera::cuda
