#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Depthwise 1-D convolution over the past, carrying the last kernel - 1 inputs from call to call.
extern const OpDef causal_conv_with_state;

}  // namespace tessera::ops
