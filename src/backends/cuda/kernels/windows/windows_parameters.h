// The arguments of the kernels of windows.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kWindowThreads = 256;

// Windows over images of two axes, channels first: x is [batch, channels, rows, columns], y [batch, outputs, y_rows,
// y_columns]. Places outside x count as zeros, or not at all for pooling.
struct WindowGeometry {
  int batch, channels, rows, columns;
  int outputs, y_rows, y_columns;
  int kernel_rows, kernel_columns;
  int stride_rows, stride_columns;
  int dilation_rows, dilation_columns;
  int pad_top, pad_left;
};

// y = activation(sum over window and channels of the group + bias).
struct ConvParameters {
  const void* x;
  const void* weights;  // [outputs, channels / groups, kernel_rows, kernel_columns]
  const float* bias;    // one per output, or null
  void* y;
  WindowGeometry geometry;
  int groups;
  bool relu;
};

enum class PoolingKind : int {
  maximum,
  average,            // over the places inside x
  average_with_pads,  // places outside x count as zeros
};

struct PoolingParameters {
  const void* x;
  void* y;
  WindowGeometry geometry;  // outputs = channels
  PoolingKind kind;
  int pad_bottom, pad_right;  // as far as places count for average_with_pads
};

}  // namespace tessera::cuda
