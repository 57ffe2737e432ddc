// Compress, NonZero, Unique, TopK: selection of elements by their values.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef compress;
extern const OpDef non_zero;
extern const OpDef unique;
extern const OpDef top_k;

}  // namespace tessera::ops
