// Names of layers for people.
#pragma once

#include <map>
#include <string>

#include "train/net/layer_weights.h"

namespace tessera::compress {

// For each layer, by the name of its weights, the name to show. It is the name of the weights, except where an exporter
// numbered them ("onnx::MatMul_140", "val_12"): then it is the layer's module, taken from a bias's name
// ("encoder.linear1.bias"), or else the node's name.
std::map<std::string, std::string> layer_labels(const ir::Graph& graph, const std::vector<train::LayerWeight>& layers);

}  // namespace tessera::compress
