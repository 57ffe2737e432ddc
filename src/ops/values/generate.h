// ConstantOfShape, Range, EyeLike, OneHot: tensors made from a few numbers.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef constant_of_shape;
extern const OpDef range;
extern const OpDef eye_like;
extern const OpDef one_hot;

// max(ceil((limit - start) / delta), 0) of three one-element tensors of a type Range takes. Throws Error(failed) when
// delta is 0 or a value is not finite, Error(over_budget) when the count has no 64-bit form.
std::int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta);

// The number in OneHot's depth (one element of any numeric type); throws Error(failed) below 0 or beyond 2^62.
std::int64_t one_hot_depth(const Tensor& depth);

}  // namespace tessera::ops
