// tessera::MaxPoolGradient(dY, X, Y) → dX: each element of dY goes to the element of X that its window took, the first
// of them (in the order of the axes) that is not less than Y. Elements that several windows took get the sum. The
// attributes are those of MaxPool, and `channel_axis`, 1 or the last axis: the layout is [N, C, spatial...] or
// [N, spatial..., C].
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

struct WindowAxis;

extern const OpDef max_pool_gradient;

// The windows' axes for data of that shape in the layout of `channel_axis`.
std::vector<WindowAxis> max_pool_gradient_geometry(const AttributeReader& reader, const Shape& x);
bool has_channels_last(const AttributeReader& reader, std::size_t rank);

// The gradient function of MaxPool.
void max_pool_backward(GradientContext& context);

}  // namespace tessera::ops
