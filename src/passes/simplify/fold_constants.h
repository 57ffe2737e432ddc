// Functions of the pass fold_constants that other passes use.
#pragma once

#include "passes/pass.h"

namespace tessera::passes {

// Folds all constants, including the 8-bit weights that the pass leaves: those dequantised for an operator that may
// compute with the integers.
ir::Graph fold_all_constants(ir::Graph graph, const PassContext& context);

}  // namespace tessera::passes
