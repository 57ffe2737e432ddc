// Moves weights out of the bodies of If, Loop and Scan.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model with those float32 constants of rank 1 or more that may be weights (ir/constant_role.h) moved out of
// bodies, which get them as captured values. The reader copies constants into the bodies that use them, but training
// makes variables only of a graph's own constants. The moved constants keep their names if these are not taken.
ir::Graph lift_weights(ir::Graph model);

}  // namespace tessera::train
