// ArgMax and ArgMin: the position of the largest or smallest element along an axis.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef arg_max, arg_min;

}  // namespace tessera::ops
