#pragma once

#include "ops/op.h"

namespace tessera::ops {

// The transpose (gradient with respect to the data) of Conv.
extern const OpDef conv_transpose;

}  // namespace tessera::ops
