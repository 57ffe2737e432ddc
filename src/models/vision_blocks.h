// Blocks of convolutional nets: convolution + batch normalisation + activation, squeeze-excite, inverted residuals.
#pragma once

#include <cstdint>
#include <string>

#include "models/layers.h"

namespace tessera::models {

enum class BlockActivation : std::uint8_t { none, relu, relu6, silu, sigmoid, hard_swish, hard_sigmoid };

// As PyTorch exports it: ReLU6 is Clip with scalar bounds, SiLU is x·sigmoid(x).
ValueId activate(LayerBuilder& layers, ValueId x, BlockActivation activation);

// A convolution without bias over x [batch, in, spatial...], same padding (odd kernels), then BatchNormalization and
// the activation. `scale` multiplies the normalisation's weights: below 1 at the end of a residual branch, so that
// the sum does not grow with depth.
struct ConvNorm {
  std::int64_t kernel = 3, stride = 1, groups = 1;
  BlockActivation activation = BlockActivation::relu;
  double scale = 1;
  float epsilon = 1e-5f;
  std::size_t axes = 2;
};
ValueId conv_norm(LayerBuilder& layers, const std::string& name, ValueId x, std::int64_t in_channels,
                  std::int64_t out_channels, const ConvNorm& options);

// x·gate(W2·activation(W1·mean(x))) with 1x1 convolutions; x is [batch, channels, height, width] (arXiv:1709.01507).
ValueId squeeze_excite(LayerBuilder& layers, ValueId x, std::int64_t channels, std::int64_t squeezed,
                       BlockActivation activation, BlockActivation gate);

// Expand by 1x1, filter each channel, squeeze-excite if `squeezed` is not 0, project by 1x1 without activation; the
// input is added when stride is 1 and the widths agree (arXiv:1801.04381). There is no expansion when `expanded` equals
// `in`.
struct InvertedResidual {
  std::int64_t in, expanded, out, kernel, stride;
  BlockActivation activation;
  std::int64_t squeezed = 0;
  BlockActivation squeeze_activation = BlockActivation::relu, gate = BlockActivation::hard_sigmoid;
  float epsilon = 1e-5f;
};
ValueId inverted_residual(LayerBuilder& layers, ValueId x, const InvertedResidual& block);

// The mean over space as [batch, channels].
ValueId global_average(LayerBuilder& layers, ValueId x);

}  // namespace tessera::models
