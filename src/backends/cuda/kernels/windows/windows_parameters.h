// The arguments of the kernels of windows.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kWindowThreads = 256;

inline constexpr int kWindowAxes = 3;

// Windows over images of up to three axes, channels first: x is [batch, channels, x_size...], y [batch, outputs,
// y_size...]. The innermost axis is the last; unused axes stand in front and have sizes, strides and dilations of 1.
// Places outside x count as zeros, or not at all for pooling.
struct WindowGeometry {
  int batch, channels, outputs;
  int x_size[kWindowAxes], y_size[kWindowAxes], kernel[kWindowAxes];
  int stride[kWindowAxes], dilation[kWindowAxes], pad_begin[kWindowAxes];
};

// y = activation(sum over window and channels of the group + bias).
struct ConvParameters {
  const void* x;
  const void* weights;  // [outputs, channels / groups, kernel...]; transposed: [channels, outputs / groups, kernel...]
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
  int pad_end[kWindowAxes];  // as far as places count for average_with_pads
};

}  // namespace tessera::cuda
