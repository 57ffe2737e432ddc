// Axes that an element-wise launch iterates over.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/op.h"

namespace tessera::backends::cuda {

struct BroadcastAxis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;  // per input, in elements; 0 where it is broadcast
};

// The axes of output 0, from the outermost, with the strides of the first `inputs` inputs; neighbours that all operands
// pass through without a jump are one axis.
std::vector<BroadcastAxis> broadcast_axes(const ops::NodeView& view, std::size_t inputs);

}  // namespace tessera::backends::cuda
