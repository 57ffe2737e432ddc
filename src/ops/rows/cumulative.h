// Running sums and products along an axis.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef cum_prod, cum_sum;

}  // namespace tessera::ops
