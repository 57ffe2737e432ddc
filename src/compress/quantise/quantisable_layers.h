// The layers of a graph whose weights can be quantised.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/session.h"

namespace tessera::compress {

enum class LayerKind : std::uint8_t { convolution, product, table };

struct QuantisableLayer {
  LayerKind kind = LayerKind::product;
  ir::NodeId node;
  ir::ValueId data, weight, bias;  // data: of a table the indices; bias: a constant vector, or none
  ir::NodeId bias_add;             // a MatMul's bias is the operand of this Add
  std::int64_t axis = 0;           // of the weights' output channels, of a table its rows
  bool transposed = false;         // a MatMul reads the weights, [outputs, inputs], through a Transpose
  std::string name;
};

// Conv, MatMul, Gemm (alpha, beta 1, A not transposed) with constant float32 weights, and Gathers of rows from large
// constant tables. The output layer of a language model that multiplies by its table of tokens is one too.
std::vector<QuantisableLayer> quantisable_layers(const ir::Graph& graph);

// The graph of the model with constants folded and normalisations folded into weights, in ONNX's operators.
ir::Graph prepared_graph(const Model& model, const SessionOptions& session);
// The model after the passes of these names alone.
ir::Graph graph_after(std::span<const std::string_view> names, const Model& model, const SessionOptions& session);

// The bytes of all constants with data.
std::int64_t constant_bytes(const ir::Graph& graph);

// Axis of the data that holds the channels that the weights' inputs are: 1 of a convolution, else the last.
std::int64_t channel_axis(const QuantisableLayer& layer, std::int64_t rank);

}  // namespace tessera::compress
