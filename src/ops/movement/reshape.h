// Reshape, Flatten, Squeeze and Unsqueeze: the same elements in row-major order under another shape.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef reshape;
extern const OpDef flatten;
extern const OpDef squeeze;
extern const OpDef unsqueeze;

// The shape that Reshape gives for a request with 0 (copies a dimension, unless allow_zero) and at most one -1 (the
// rest). Throws Error(invalid_model) when the element counts cannot agree.
Shape resolve_reshape(const Shape& input, std::span<const std::int64_t> request, bool allow_zero);

// The results of the other operators, for dimensions that may be unknown; all throw Error(invalid_model) on an invalid
// axis. Flatten: [product before axis, product from axis on], axis in [-rank, rank].
ir::Dims flatten_dims(const ir::Dims& input, std::int64_t axis);
// Squeeze: removes the given axes, each of which must be 1.
ir::Dims squeeze_dims(const ir::Dims& input, std::span<const std::int64_t> axes);
// Unsqueeze: the result has a 1 at each of the given axes.
ir::Dims unsqueeze_dims(const ir::Dims& input, std::span<const std::int64_t> axes);
// The axes of size 1, which Squeeze without axes removes.
std::vector<std::int64_t> unit_axes(const Shape& shape);

}  // namespace tessera::ops
