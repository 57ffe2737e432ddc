// Replaces a net's last layer for another number of classes.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

namespace tessera::train {

struct NewHead {
  ir::Graph graph;
  // A sentence such as "the last layer 'fc' (weight fc.weight) has 7 outputs in place of 1000, with new weights".
  std::string description;
};

// Replaces the last layer before the output of that name (empty: the only output) by one with `classes` outputs. The
// last layer is found by walking backwards from the output over nodes with one computed operand, up to the first
// convolution or product with a constant weight; a constant that is added behind a product is its bias. Weight and bias
// keep their names, and are drawn as PyTorch initialises Linear and Conv2d: uniformly within ±1 / √(inputs of an
// output), by the seed. Constant shapes behind the layer are adapted. Types are inferred. Throws
// Error(invalid_argument) if no such layer is found, or if the nodes behind it do not accept another number of classes.
NewHead replace_head(ir::Graph graph, const std::string& output, std::int64_t classes, std::uint64_t seed);

}  // namespace tessera::train
