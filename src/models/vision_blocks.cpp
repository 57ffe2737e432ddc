#include "models/vision_blocks.h"

#include "base/error.h"

namespace tessera::models {
namespace {

// Factor on a convolution's output that keeps random nets near 1. A rectifier needs none, as He's weights allow for it;
// self-gated activations shrink small values and not large ones, so no factor suits all depths: these were measured.
double gain_before(BlockActivation activation) {
  if (activation == BlockActivation::hard_swish) return 1.22;
  return activation == BlockActivation::silu ? 1.07 : 1.0;
}

}  // namespace

ValueId activate(LayerBuilder& layers, ValueId x, BlockActivation activation) {
  ops::GraphBuilder& ops = layers.ops();
  switch (activation) {
    case BlockActivation::none:
      return x;
    case BlockActivation::relu:
      return layers.relu(x);
    case BlockActivation::relu6:
      return ops.add("Clip", {x, ops.scalar(0), ops.scalar(6)});
    case BlockActivation::silu:
      return layers.multiply(x, layers.sigmoid(x));
    case BlockActivation::sigmoid:
      return layers.sigmoid(x);
    case BlockActivation::hard_swish:
      return ops.add("HardSwish", {x});
    case BlockActivation::hard_sigmoid:
      return ops.add("HardSigmoid", {x}, {{"alpha", 1.0f / 6.0f}, {"beta", 0.5f}});
  }
  fail(ErrorKind::invalid_argument, "unknown activation {}", static_cast<int>(activation));
}

ValueId conv_norm(LayerBuilder& layers, const std::string& name, ValueId x, std::int64_t in_channels,
                  std::int64_t out_channels, const ConvNorm& options) {
  const LayerBuilder::Window window{std::vector<std::int64_t>(options.axes, options.kernel), options.stride,
                                    (options.kernel - 1) / 2, options.groups, false};
  x = layers.conv(name + ".conv", x, in_channels, out_channels, window);
  auto statistic = [&](const char* part, double mean) {
    return layers.weight(name + ".norm." + part, {out_channels}, 0.05, mean);
  };
  const ValueId weight = statistic("weight", options.scale * gain_before(options.activation)),
                bias = statistic("bias", 0);
  const ValueId mean = statistic("running_mean", 0), variance = statistic("running_var", 1);
  x = layers.ops().add("BatchNormalization", {x, weight, bias, mean, variance}, {{"epsilon", options.epsilon}});
  return activate(layers, x, options.activation);
}

ValueId squeeze_excite(LayerBuilder& layers, ValueId x, std::int64_t channels, std::int64_t squeezed,
                       BlockActivation activation, BlockActivation gate) {
  ValueId s = layers.ops().add("GlobalAveragePool", {x});
  s = activate(layers, layers.conv("squeeze", s, channels, squeezed, {.kernel = {1, 1}}), activation);
  s = activate(layers, layers.conv("excite", s, squeezed, channels, {.kernel = {1, 1}}), gate);
  return layers.multiply(x, s);
}

ValueId inverted_residual(LayerBuilder& layers, ValueId x, const InvertedResidual& block) {
  const bool residual = block.stride == 1 && block.in == block.out;
  ValueId y = x;
  if (block.expanded != block.in)
    y = conv_norm(layers, "expand", y, block.in, block.expanded,
                  {.kernel = 1, .activation = block.activation, .epsilon = block.epsilon});
  y = conv_norm(layers, "depthwise", y, block.expanded, block.expanded,
                {block.kernel, block.stride, block.expanded, block.activation, 1, block.epsilon});
  if (block.squeezed > 0)
    y = squeeze_excite(layers, y, block.expanded, block.squeezed, block.squeeze_activation, block.gate);
  // The linear projection doubles the variance, and gates near a half leave a quarter of it: the scale undoes that, and
  // makes the branch of a residual sum the lesser part.
  const double scale = (residual ? 0.4 : 0.7) * (block.squeezed > 0 ? 2.0 : 1.0);
  y = conv_norm(layers, "project", y, block.expanded, block.out,
                {.kernel = 1, .activation = BlockActivation::none, .scale = scale, .epsilon = block.epsilon});
  return residual ? layers.add(x, y) : y;
}

ValueId global_average(LayerBuilder& layers, ValueId x) {
  return layers.ops().add("Flatten", {layers.ops().add("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
}

}  // namespace tessera::models
