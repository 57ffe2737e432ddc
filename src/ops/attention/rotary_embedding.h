#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Rotary position embedding (arXiv:2104.09864).
extern const OpDef rotary_embedding;

// The sizes of a RotaryEmbedding node: X is [batch, heads, length, head_size], or packed [batch, length, heads *
// head_size]. The first `rotated` elements of every head are rotated, the others copied.
struct RotarySizes {
  bool packed = false;
  std::int64_t batch = 0, heads = 0, length = 0, head_size = 0, rotated = 0;
};
// Throws Error(invalid_model) when sizes and attributes do not fit.
RotarySizes rotary_sizes(const AttributeReader& reader, const Shape& x);

}  // namespace tessera::ops
