// Det: determinants of square matrices.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef det;
extern const OpDef det_gradient;

}  // namespace tessera::ops
