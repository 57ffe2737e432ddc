// The arguments of the kernels of strided_copy.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kCopyAxes = 6, kCopyThreads = 256;

// y[sum of index × y_strides] = x[sum of index × x_strides] for every index below `sizes`; strides in elements, of any
// sign, 0 in x where it is broadcast. Axes are ordered from the outermost; unused ones have size 1.
struct CopyParameters {
  const void* x;
  void* y;
  std::int64_t sizes[kCopyAxes], x_strides[kCopyAxes], y_strides[kCopyAxes];
  std::int64_t count;
};

}  // namespace tessera::cuda
