// Keys and values of a cache in 8 or 4 bits.
#pragma once

#include "ops/attention/attention_parts.h"

namespace tessera::ops {

// code = round(value / scale), within the range of `bits` and sign; 4-bit codes are stored with 8 added, two per byte,
// the first in the low half.
struct CacheCoding {
  std::int64_t bits = 8;    // 8: i8; 4: u8 with half as many elements in the last dimension
  ir::ValueId scale;        // f32, one number or [1, heads, 1, size]
  DType type = DType::f32;  // of the values
};
// [batch, heads, length, size] of values, and back.
ir::ValueId encoded(GraphBuilder& builder, const CacheCoding& coding, ir::ValueId values);
ir::ValueId decoded(GraphBuilder& builder, const CacheCoding& coding, ir::ValueId codes);

}  // namespace tessera::ops
