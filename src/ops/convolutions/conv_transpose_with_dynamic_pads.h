// ConvTransposeWithDynamicPads of domain com.microsoft: ConvTranspose whose pads are an input.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef conv_transpose_with_dynamic_pads;

}  // namespace tessera::ops
