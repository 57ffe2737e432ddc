// UnfoldTensor of domain com.microsoft: all slices of a size along an axis, side by side.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef unfold_tensor;

}  // namespace tessera::ops
