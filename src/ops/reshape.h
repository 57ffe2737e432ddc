// Reshape: the same elements in row-major order under another shape.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef reshape;

// The shape that Reshape gives for a request with 0 (copy, unless allow_zero) and at most one -1 (the rest).
// Throws Error(invalid_model) when the element counts cannot agree.
Shape resolve_reshape(const Shape& input, std::span<const std::int64_t> request, bool allow_zero);

}  // namespace tessera::ops
