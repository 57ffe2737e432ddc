// Attention and QAttention of com.microsoft: self-attention with its input projections.
// Schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef microsoft_attention;
extern const OpDef q_attention;

}  // namespace tessera::ops
