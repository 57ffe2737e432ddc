// Activation functions of neural networks, element by element.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef celu, elu, gelu, hard_sigmoid, hard_swish, leaky_relu, mish, relu, selu, shrink, sigmoid, softplus,
    softsign, swish, tanh, thresholded_relu;

}  // namespace tessera::ops
