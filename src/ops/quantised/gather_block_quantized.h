// GatherBlockQuantized of domain com.microsoft: rows of a table that is quantised in blocks, as real numbers.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef gather_block_quantized;

}  // namespace tessera::ops
