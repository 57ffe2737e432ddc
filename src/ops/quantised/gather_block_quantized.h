// GatherBlockQuantized of domain com.microsoft: rows, as real numbers, of a table that is quantised in blocks.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef gather_block_quantized;

}  // namespace tessera::ops
