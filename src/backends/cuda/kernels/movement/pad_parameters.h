// The arguments of the kernels of pad.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kPadThreads = 256, kPadAxes = 6;

enum class PaddingMode : int { constant, reflect, edge, wrap };

// y[index] = x[index - begin]; positions outside x take what the mode says. Axes are ordered from the outermost; unused
// ones have sizes of 1 and a begin of 0.
struct PadParameters {
  const void* x;
  void* y;
  const void* value;  // one element, or null: zero
  std::int64_t x_sizes[kPadAxes], y_sizes[kPadAxes], x_strides[kPadAxes], begin[kPadAxes];
  std::int64_t count;
  PaddingMode mode;
};

}  // namespace tessera::cuda
