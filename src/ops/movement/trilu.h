// Trilu: the upper or lower triangles of a batch of matrices, with zeros elsewhere.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef trilu;

}  // namespace tessera::ops
