// Conversion of element types.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef bit_cast, cast, cast_like;

}  // namespace tessera::ops
