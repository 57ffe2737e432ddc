// Normalisation of a sum, as com.microsoft fuses it.
// Schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef skip_layer_normalization;
extern const OpDef skip_simplified_layer_normalization;

}  // namespace tessera::ops
