// Weights that a training begins with, from another file, by their names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/tensor.h"

namespace tessera::train {

// The float32 arrays by name of an .npz file, of a checkpoint or the folder of a training (moving averages in place of
// weights where there are some), or of a model. Throws Error as reading does.
std::map<std::string, Tensor> read_weights(const std::string& path);

// Gives the constants of the graph that have a name and the shape of a weight its values. Returns the names of those
// that did.
std::vector<std::string> take_weights(ir::Graph& graph, const std::map<std::string, Tensor>& weights);

// For people: "31 of 33 weights are those of 'a.onnx'; not fc.weight ([1000, 512] there, [7, 512] here)". Throws
// Error(invalid_argument) where no weight was taken.
std::string describe_taken(const ir::Graph& graph, const std::map<std::string, Tensor>& weights,
                           const std::vector<std::string>& taken, const std::string& path);

}  // namespace tessera::train
