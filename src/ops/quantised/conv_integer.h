// Convolutions over 8-bit integers: ConvInteger and QLinearConv.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef conv_integer;
extern const OpDef q_linear_conv;

}  // namespace tessera::ops
