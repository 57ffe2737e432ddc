// Finds the layers of a graph whose weights can be quantised.
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
  ir::ValueId data, weight, bias;  // data: for a table, the indices; bias: a constant vector, or none
  ir::NodeId bias_add;             // the Add whose operand is a MatMul's bias
  std::int64_t axis = 0;           // of the weights' output channels; for a table, of its rows
  bool transposed = false;         // whether a MatMul reads the weights, [outputs, inputs], through a Transpose
  std::string name;
};

// All Conv, MatMul and Gemm nodes (with alpha and beta 1, and A not transposed) with constant float32 weights, and all
// Gathers of rows from large constant tables. The output layer of a language model that multiplies by its table of
// tokens is included.
std::vector<QuantisableLayer> quantisable_layers(const ir::Graph& graph);

// The model's graph in ONNX's operators, with constants folded and normalisations folded into weights.
ir::Graph prepared_graph(const Model& model, const SessionOptions& session);
// The model's graph after only the passes of these names.
ir::Graph graph_after(std::span<const std::string_view> names, const Model& model, const SessionOptions& session);

// The bytes of all constants with data.
std::int64_t constant_bytes(const ir::Graph& graph);

// The axis of the data along which the weights' input channels lie: 1 for a convolution, else the last one.
std::int64_t channel_axis(const QuantisableLayer& layer, std::int64_t rank);

}  // namespace tessera::compress
