// The product with a matrix and what usually follows it, as one operator. Not ONNX: passes/fuse_epilogues.cpp makes it.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef linear;  // "tessera::Linear"

}  // namespace tessera::ops
