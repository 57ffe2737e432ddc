// The norm of several tensors together: tessera::GlobalNorm(scale, tensors…) = sqrt(Σ (scale · x)²) over all of their
// elements, a scalar. Sums are exact enough not to overflow before the result does, so that it is finite if and only if
// all elements are (and the norm fits its type). Used to clip gradients and to find overflow.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef global_norm;

}  // namespace tessera::ops
