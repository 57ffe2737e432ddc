#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Deformable convolution v2 (arXiv:1811.11168): every kernel position samples the input at a learned offset, weighted
// by a learned mask.
extern const OpDef deform_conv;

// The samples alone, and their gradient: DeformConv is a product of the weights with tessera::DeformedWindows.
extern const OpDef deformed_windows;
extern const OpDef deformed_windows_gradient;

}  // namespace tessera::ops
