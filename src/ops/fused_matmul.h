// Matrix products of domain com.microsoft with what fusion adds to them: transposition, a factor, an activation.
#pragma once

#include "ops/op.h"

namespace tessera::ops {

extern const OpDef fused_matmul, fused_gemm;

}  // namespace tessera::ops
