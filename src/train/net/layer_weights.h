// The weights of a net that its convolutions and products multiply by.
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
  // Axes of the shape. Inputs are those that a result sums over, of a convolution within a group of channels; the
  // kernel of a convolution has no axis here.
  std::int64_t input_axis = 0, output_axis = 0;
};

// The float32 constants that nodes Conv, ConvTranspose, Gemm and MatMul have as their second operand, and the
// coefficients of DictionaryConv, whose terms are its input axis; in order of the nodes, each once. Products of more
// than one matrix, whose weights are no matrix, are left out.
std::vector<LayerWeight> layer_weights(const ir::Graph& graph);

// Whether the name is like one of these patterns, which are those of file names ("fc*").
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace tessera::train
