// SquaredDistances: the squared distances between all rows of one matrix and all rows of another.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef squared_distances;

}  // namespace tessera::ops
