// The same net in float64, against which float32 and stated gradients are measured.
#pragma once

#include "ir/graph.h"

namespace tessera::test {

// A float32 tensor as float64; others as they are.
Tensor float64_tensor(const Tensor& tensor);
// The net with every float32 constant, input and cast as float64. Types are inferred.
ir::Graph float64_graph(ir::Graph graph);

}  // namespace tessera::test
