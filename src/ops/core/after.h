#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// "tessera::After": its first operand as it is, not before the second one is computed. Passes that must delay a part of
// a graph (passes/training/recompute.h) put it in front of it; it costs nothing.
extern const OpDef after;

}  // namespace tessera::ops
