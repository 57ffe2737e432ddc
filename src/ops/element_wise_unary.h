// Element-wise functions of one tensor.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef relu, sigmoid;

}  // namespace tessera::ops
