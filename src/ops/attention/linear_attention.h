#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Attention whose past is a matrix of fixed size per head instead of all keys and values (opset 27).
extern const OpDef linear_attention;
extern const OpDef linear_attention_gradient;

}  // namespace tessera::ops
