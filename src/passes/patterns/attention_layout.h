// The operands of Attention as it needs them least copied: part of fuse_attention.
#pragma once

#include "ir/graph.h"

namespace tessera::passes {

// Attention nodes take heads where they lie: transposes [batch, length, heads, size] → [batch, heads, length, size]
// before Q, K and V, and the one back behind Y, become the packed form; heads of K and V that were repeated for those
// of Q are taken once. A constant mask that is causal becomes is_causal, one of zeros goes.
ir::Graph lay_out_attention(ir::Graph graph);

}  // namespace tessera::passes
