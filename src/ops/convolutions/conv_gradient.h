// Gradients of Conv and ConvTranspose, each the other's with respect to its data.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Both need all sizes but the batch's to be known, else Error(unsupported).
void conv_gradient(GradientContext& context);
void conv_transpose_gradient(GradientContext& context);

}  // namespace tessera::ops
