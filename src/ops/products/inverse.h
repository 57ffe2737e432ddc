// Inverse of domain com.microsoft: inverses of square matrices.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef inverse;

}  // namespace tessera::ops
