// ArgMax and ArgMin: where along an axis the largest or smallest element is.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef arg_max, arg_min;

}  // namespace tessera::ops
