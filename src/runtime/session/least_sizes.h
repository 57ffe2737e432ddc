// Which inputs of a run are too small for the model, and by how much.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::runtime {

// For inputs whose shapes inference refuses: the dimensions that the model leaves open and that are smaller than the
// least size that it takes, as words ("dimension 3 of input 'x' is 4, and the model takes no less than 32"). Empty
// where larger inputs would be refused, too, so that size is not what is wrong. `inputs`: one value per input of the
// graph.
std::string describe_small_inputs(const ir::Graph& graph, const std::vector<Value>& inputs);

}  // namespace tessera::runtime
