// What a layer is called where people read it.
#pragma once

#include <map>
#include <string>

#include "train/net/layer_weights.h"

namespace tessera::compress {

// By the names of the weights of layers: the same name, but for those that an exporter numbered ("onnx::MatMul_140",
// "val_12"). These are called by the layer's module, which a bias's name tells ("encoder.linear1.bias"), or by the
// node.
std::map<std::string, std::string> layer_labels(const ir::Graph& graph, const std::vector<train::LayerWeight>& layers);

}  // namespace tessera::compress
