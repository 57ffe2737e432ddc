// Finds the weights of a net that convolutions and products multiply by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::train {

struct LayerWeight {
  std::string name;
  ir::ValueId value;
  Shape shape;
  // Axes of the shape. `input_axis` is the one that a result sums over, for a convolution within a group of channels.
  // The axes of a convolution's kernel are neither of them.
  std::int64_t input_axis = 0, output_axis = 0;
};

// The float32 constants that are the second operand of Conv, ConvTranspose, Gemm and MatMul nodes, and the coefficients
// of DictionaryConv, whose terms are the input axis; in order of the nodes, each once. Products of stacked matrices,
// whose weights are not a single matrix, are left out.
std::vector<LayerWeight> layer_weights(const ir::Graph& graph);

// Whether the name matches one of these patterns, which are like those of file names ("fc*").
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace tessera::train
