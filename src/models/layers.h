// Blocks that several nets share. Weights are random, scaled so that activations stay around 1 through any depth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/models.h"
#include "ops/core/builder.h"

namespace tessera::models {

using ir::ValueId;

class LayerBuilder {
 public:
  LayerBuilder(ir::Graph& graph, const BuildOptions& options);

  ops::GraphBuilder& ops() { return builder_; }
  ir::Graph& graph() { return builder_.graph(); }

  // The dimension of that name: the number in the options, else a symbol (`fallback` 0) or the number `fallback`.
  ir::Dim dim(const std::string& name, std::int64_t fallback = 0) const;
  // The size of that name: the number in the options, else `fallback`.
  std::int64_t size(const std::string& name, std::int64_t fallback) const;
  ValueId input(const std::string& name, DType dtype, ir::Dims dims);
  // Names the value and makes it a graph output.
  void output(const std::string& name, ValueId value);
  // Names of the nodes and weights that follow start with "prefix/".
  void scope(const std::string& prefix);

  // --- weights: 'name' is relative to the scope ---
  // Uniformly distributed with this mean and standard deviation.
  ValueId weight(const std::string& name, Shape shape, double standard_deviation, double mean = 0);
  // Standard deviation sqrt(gain / fan_in) (He et al., arXiv:1502.01852, for gain 2).
  ValueId scaled_weight(const std::string& name, Shape shape, std::int64_t fan_in, double gain = 2);

  // --- layers: x is [batch, channels, spatial...] ---
  struct Window {
    std::vector<std::int64_t> kernel;
    std::int64_t stride = 1, padding = 0, groups = 1;
    bool bias = true;
  };
  ValueId conv(const std::string& name, ValueId x, std::int64_t in_channels, std::int64_t out_channels,
               const Window& window);
  ValueId max_pool(ValueId x, std::vector<std::int64_t> kernel, std::int64_t stride, std::int64_t padding = 0);
  ValueId relu(ValueId x);
  ValueId sigmoid(ValueId x);
  ValueId add(ValueId a, ValueId b);
  ValueId multiply(ValueId a, ValueId b);
  ValueId concat(std::vector<ValueId> parts, std::int64_t axis);
  ValueId reshape(ValueId x, std::vector<std::int64_t> shape);  // 0 copies, -1 the rest
  ValueId transpose(ValueId x, std::vector<std::int64_t> permutation);
  ValueId softmax(ValueId x, std::int64_t axis = -1);

  // --- layers: x is [..., in_features] ---
  ValueId linear(const std::string& name, ValueId x, std::int64_t in_features, std::int64_t out_features,
                 bool bias = true);  // MatMul + Add
  // x is 2-D; `gain` as of scaled_weight, 2 before a rectifier.
  ValueId gemm(const std::string& name, ValueId x, std::int64_t in_features, std::int64_t out_features,
               double gain = 1);
  ValueId layer_norm(const std::string& name, ValueId x, std::int64_t features);
  ValueId gelu(ValueId x);  // by Erf, as PyTorch exports it
  // Rows of a table [rows, features].
  ValueId embedding(const std::string& name, ValueId indices, std::int64_t rows, std::int64_t features);
  // Multi-head self-attention over x [batch, length, width] with fused or separate projections; `mask` (if valid) is
  // added to the scores [batch, heads, length, length].
  ValueId attention(ValueId x, std::int64_t width, std::int64_t heads, ValueId mask = {});

 private:
  ops::GraphBuilder builder_;
  const BuildOptions& options_;
  std::string scope_;
  std::uint64_t next_stream_ = 0;
  std::int64_t weight_bytes_ = 0, most_bytes_;
};

}  // namespace tessera::models
