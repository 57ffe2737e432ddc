// tessera::BlockGather: rows of a table that is stored in the blocks of language models.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// W (N rows of K elements in blocks of `format`, as for BlockLinear) and indices [...] → the rows in float32, [..., K].
// A negative index counts from the end, as Gather's.
extern const OpDef block_gather;

}  // namespace tessera::ops
