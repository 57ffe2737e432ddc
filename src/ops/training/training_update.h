// One step of an optimiser over any number of tensors, as ONNX's training preview defines it: Adagrad, Adam and
// Momentum.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef adagrad;
extern const OpDef adam;
extern const OpDef momentum;

}  // namespace tessera::ops
