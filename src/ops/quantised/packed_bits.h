// Numbers of 2 or 4 bits that a model stores packed in bytes, the first one in the lowest bits.
#pragma once

#include "ops/core/builder.h"

namespace tessera::ops {

// Unpacks u8[..., n] to [..., n · 8 / bits]: a constant becomes u4 or u2 with the same bytes, any other value u8 with
// one number per element; 8 bits stay as they are. Nothing when the shape is not known.
std::optional<ir::ValueId> unpack_bits(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits);

// Unpacks to u8 with one number per element, constants too.
std::optional<ir::ValueId> unpack_bits_to_bytes(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits);

}  // namespace tessera::ops
