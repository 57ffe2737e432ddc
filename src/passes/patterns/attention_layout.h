// Removes copies of the operands of Attention: a part of fuse_attention.
#pragma once

#include "ir/graph.h"

namespace tessera::passes {

// Lets Attention nodes read heads in place: transposes [batch, length, heads, size] → [batch, heads, length, size]
// before Q, K and V, and the reverse one behind Y, are replaced by the packed form; heads of K and V that were repeated
// to match those of Q are passed once. A constant causal mask becomes is_causal; a mask of zeros is removed.
ir::Graph lay_out_attention(ir::Graph graph);

}  // namespace tessera::passes
