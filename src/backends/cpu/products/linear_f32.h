// Product with a matrix of weights in float32 (gemm_f32.h), for all operators that reduce to one.
#pragma once

#include "backends/backend.h"

namespace tessera::backends::cpu {

// The weights are [outputs, inputs, 1...] if `transposed`, else [inputs, outputs, 1...]. Bias, addend and activation
// are those of Linear and ChannelsLastConv.
KernelPointer make_packed_linear_f32(const ops::NodeView& view, WeightStore& weights, bool transposed);

}  // namespace tessera::backends::cpu
