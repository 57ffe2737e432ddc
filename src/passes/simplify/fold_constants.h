// What the pass fold_constants shares with others.
#pragma once

#include "passes/pass.h"

namespace tessera::passes {

// The pass, but for the one thing that it leaves: 8-bit weights that are dequantised for an operator which may work on
// the integers.
ir::Graph fold_all_constants(ir::Graph graph, const PassContext& context);

}  // namespace tessera::passes
