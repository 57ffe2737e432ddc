// Conv of domain com.microsoft with a residual and an activation fused into it.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef fused_conv;

}  // namespace tessera::ops
