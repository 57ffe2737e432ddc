#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// "tessera::After" returns its first operand unchanged, and only after the second operand has been computed. Passes
// that must delay a part of a graph (passes/training/recompute.h) insert it in front of that part; it costs nothing.
extern const OpDef after;

}  // namespace tessera::ops
