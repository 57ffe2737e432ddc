// MatMulNBits of domain com.microsoft: a product with weights that are quantised in blocks to 2, 4 or 8 bits.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef matmul_n_bits;

// Throws Error(invalid_model) unless there are 2, 4 or 8 bits.
void check_bits(std::int64_t bits);
// Throws Error(invalid_model) unless the block size is a power of two of at least 16.
void check_block_size(std::int64_t block_size);

}  // namespace tessera::ops
