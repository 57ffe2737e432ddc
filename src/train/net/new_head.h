// A last layer for another number of classes.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace tessera::train {

struct NewHead {
  ir::Graph graph;
  // For people: "the last layer 'fc' (weight fc.weight) has 7 outputs in place of 1000, with new weights".
  std::string description;
};

// Replaces the last layer before the output of that name (empty: the only one) by one with `classes` outputs. The last
// layer is the first convolution or product with a constant weight on the way back from the output, over nodes with one
// operand that is computed; of a product a constant that is added behind it is the bias. Weight and bias keep their
// names, and are drawn as PyTorch initialises Linear and Conv2d: uniformly within ±1 / √(inputs of an output), by the
// seed. Shapes given by constants behind the layer follow. Types are inferred. Throws Error(invalid_argument) where no
// such layer is found, or where what lies behind it takes no other number of classes.
NewHead replace_head(ir::Graph graph, const std::string& output, std::int64_t classes, std::uint64_t seed);

}  // namespace tessera::train
