// SquaredDistances: of all rows of one matrix from all rows of another.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef squared_distances;

}  // namespace tessera::ops
