// MultiHeadAttention of com.microsoft, and its form for one step of decoding.
// Schemas: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef multi_head_attention;
extern const OpDef decoder_masked_multi_head_attention;

}  // namespace tessera::ops
