// Numbers of 2 or 4 bits that a model stores in bytes, the first one in the lowest bits.
#pragma once

#include "ops/core/builder.h"

namespace tessera::ops {

// u8[..., n] of packed numbers as [..., n · 8 / bits]: a constant becomes u4 or u2 with the same bytes, anything else
// u8 with one number each; 8 bits stay as they are. Nothing when the shape is not known.
std::optional<ir::ValueId> unpack_bits(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits);

// The same with one number a u8 always.
std::optional<ir::ValueId> unpack_bits_to_bytes(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits);

}  // namespace tessera::ops
