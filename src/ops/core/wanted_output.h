// Outputs of an operator that its gradient needs although the graph did not ask for them.
#pragma once

#include "ops/core/gradient.h"

namespace tessera::ops {

// Returns output `i` of the node that is differentiated, and adds it to the node if it is absent. The node must have
// output 0.
Term wanted_output(GradientContext& context, std::size_t i);

}  // namespace tessera::ops
