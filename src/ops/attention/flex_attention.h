#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// Attention with subgraphs that change scores and probabilities; always replaced by its decomposition.
extern const OpDef flex_attention;

}  // namespace tessera::ops
