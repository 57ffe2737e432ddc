// Constant weights of linear operators by the channels that they connect: per-channel operations before or behind the
// operator can be folded into its weights.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace tessera::passes {

// The weights of a Conv, ConvTranspose, Gemm or MatMul by a matrix, stored as [rows, columns, kernel…].
struct LinearWeights {
  const Tensor* tensor = nullptr;
  std::int64_t inputs = 0, outputs = 0;  // channels
  std::int64_t rows = 0, columns = 0, kernel = 1, groups = 1;
  bool rows_are_outputs = false;

  // The first of the channels to which the columns of a row belong.
  std::int64_t first_channel(std::int64_t row) const { return row / (rows / groups) * columns; }

  // The weights times one factor per input channel and one per output channel; nothing where a weight would not be
  // finite. Large weights are deferred.
  std::optional<Tensor> scaled(std::span<const double> by_input, std::span<const double> by_output) const;
  // The sum that the operator adds to each output channel for an input that is constant over all positions of a
  // channel, where windows do not reach into padding.
  std::vector<double> applied(std::span<const double> by_input) const;
};

// Nothing for other operators, and for weights that are not f32 constants.
std::optional<LinearWeights> linear_weights(const ir::Graph& graph, const ir::Node& node);
bool is_product(const ir::Node& node);  // MatMul or Gemm
// The axis of the channels in its data of that rank; its outputs have their channels along the same axis.
std::size_t channel_axis(const ir::Node& linear, std::size_t rank);
// Deducts the bytes of new weights from the folding budget; returns false if they exceed it.
bool charge(const PassContext& context, const Tensor& weights);

}  // namespace tessera::passes
