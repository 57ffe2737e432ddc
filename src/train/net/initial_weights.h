// Takes a training's initial weights from another file, by their names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/tensor.h"

namespace tessera::train {

// The float32 arrays by name of an .npz file, of a checkpoint or of the folder of a training (moving averages in place
// of weights, if there are any), or of a model. Throws the errors of reading.
std::map<std::string, Tensor> read_weights(const std::string& path);

// Gives the graph's constants the values of the weights with the same name and shape. Returns the names of the
// constants that changed.
std::vector<std::string> take_weights(ir::Graph& graph, const std::map<std::string, Tensor>& weights);

// A sentence such as "31 of 33 weights are those of 'a.onnx'; not fc.weight ([1000, 512] there, [7, 512] here)". Throws
// Error(invalid_argument) if no weight was taken.
std::string describe_taken(const ir::Graph& graph, const std::map<std::string, Tensor>& weights,
                           const std::vector<std::string>& taken, const std::string& path);

}  // namespace tessera::train
