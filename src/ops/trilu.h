// Trilu: the upper or lower triangles of a batch of matrices, with zeros elsewhere.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef trilu;

}  // namespace tessera::ops
