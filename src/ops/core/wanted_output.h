// Results of an operator that its gradient needs and the graph did not ask for.
#pragma once

#include "ops/core/gradient.h"

namespace tessera::ops {

// Output `i` of the node that is differentiated, which gives it from here on if it did not yet. The node must give
// output 0.
Term wanted_output(GradientContext& context, std::size_t i);

}  // namespace tessera::ops
