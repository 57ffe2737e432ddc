// Operators that pass their input on: Identity, and Dropout outside training.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef dropout, identity;

}  // namespace tessera::ops
