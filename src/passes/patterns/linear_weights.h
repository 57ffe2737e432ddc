// Constant weights of linear operators by the channels that they connect: what happens to channels before or behind the
// operator can happen to its weights.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace tessera::passes {

// Of Conv, ConvTranspose, Gemm and MatMul by a matrix. Weights lie as [rows, columns, kernel…].
struct LinearWeights {
  const Tensor* tensor = nullptr;
  std::int64_t inputs = 0, outputs = 0;  // channels
  std::int64_t rows = 0, columns = 0, kernel = 1, groups = 1;
  bool rows_are_outputs = false;

  // Of a row, the first of the channels that its columns stand for.
  std::int64_t first_channel(std::int64_t row) const { return row / (rows / groups) * columns; }

  // Times a factor for each channel of the input, and one for each of the output; nothing where a weight becomes no
  // finite number. Large weights are deferred.
  std::optional<Tensor> scaled(std::span<const double> by_input, std::span<const double> by_output) const;
  // What the operator adds to each channel of its output for numbers that are the same at all positions of the input,
  // where windows do not leave it.
  std::vector<double> applied(std::span<const double> by_input) const;
};

// Nothing for other operators, and for weights that are no f32 constants.
std::optional<LinearWeights> linear_weights(const ir::Graph& graph, const ir::Node& node);
bool is_product(const ir::Node& node);  // MatMul or Gemm
// Along which axis of its data, of that rank, the channels of its inputs lie; its outputs' lie along the same.
std::size_t channel_axis(const ir::Node& linear, std::size_t rank);
// Takes the bytes of new weights from what folding may still make; false where that is less.
bool charge(const PassContext& context, const Tensor& weights);

}  // namespace tessera::passes
