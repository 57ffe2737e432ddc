// Comparisons and logic on tensors that broadcast against each other as in numpy.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef equal, greater, greater_or_equal, less, less_or_equal, logical_and, logical_or, logical_xor;

}  // namespace tessera::ops
