// Concat and Split: joining tensors along an axis, and splitting one.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef concat;
extern const OpDef split;

// Dimensions of tensors joined along `axis` (already in [0, rank)); throws Error(invalid_model) where other dimensions
// differ.
ir::Dims concat_dims(std::span<const ir::Dims> inputs, std::int64_t axis);
// The sizes of `count` parts of `dim`, the last one smaller if `count` does not divide `dim`; throws
// Error(invalid_model) where that is impossible.
std::vector<std::int64_t> split_evenly(std::int64_t dim, std::int64_t count);
// Throws Error(invalid_model) unless the sizes are >= 0 and add up to `dim`.
void check_split(std::span<const std::int64_t> sizes, std::int64_t dim);

}  // namespace tessera::ops
