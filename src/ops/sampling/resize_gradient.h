// tessera::ResizeGradient, the transpose of Resize.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef resize_gradient;

}  // namespace tessera::ops
