// Weights that the bodies of If, Loop and Scan hold.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model with the float32 constants of rank 1 or more that may be weights (ir/constant_role.h) outside of bodies: a
// body gets them as captured values. The reader copies constants into the bodies that use them, where training, which
// makes variables of a graph's own constants, would not find them. The lifted constants keep their names where these
// are free.
ir::Graph lift_weights(ir::Graph model);

}  // namespace tessera::train
