#include "report/calibration_nets.h"

#include <algorithm>

#include "models/layers.h"
#include "models/vision_blocks.h"

namespace tessera::report {
namespace {

using models::Activation;
using models::LayerBuilder;
using models::ValueId;

// Convolutions of one position count: channels from `low` to `high`, with windows of 1, 3 and 5, plain and a channel at a time,
// with and without activations and sums.
void convolutions(LayerBuilder& layers, std::int64_t size, std::int64_t low, std::int64_t high, std::size_t axes) {
  ir::Dims dims{1, low};
  dims.insert(dims.end(), axes, ir::Dim(size));
  ValueId x = layers.input("x", DType::f32, dims);
  for (std::int64_t channels = low; channels <= high; channels *= 2) {
    layers.scope("c" + std::to_string(channels));
    const bool wide = channels * 2 <= high;
    const ValueId entry = x;
    x = models::conv_norm(layers, "same", x, channels, channels, {.kernel = 3, .axes = axes});
    x = models::conv_norm(layers, "narrow", x, channels, std::max<std::int64_t>(channels / 4, 8),
                          {.kernel = 1, .activation = Activation::relu6, .axes = axes});
    x = layers.add(models::conv_norm(layers, "back", x, std::max<std::int64_t>(channels / 4, 8), channels,
                                     {.kernel = 1, .activation = Activation::none, .axes = axes}),
                   entry);
    if (axes == 2) {
      const ValueId wide_x = models::conv_norm(layers, "expand", x, channels, 3 * channels, {.kernel = 1, .activation = Activation::relu6});
      const ValueId filtered = models::conv_norm(layers, "each", wide_x, 3 * channels, 3 * channels,
                                                 {.kernel = 3, .groups = 3 * channels, .activation = Activation::relu6});
      x = layers.add(models::conv_norm(layers, "project", filtered, 3 * channels, channels, {.kernel = 1, .activation = Activation::none}),
                     x);
    }
    if (wide) x = models::conv_norm(layers, "widen", x, channels, 2 * channels, {.kernel = channels <= 32 ? 3 : 1, .axes = axes});
  }
  layers.scope("");
  layers.output("y", x);
}

// What changes the number of positions: strides, first layers of three channels, pooling, upsampling, concatenation.
void resolutions(LayerBuilder& layers, std::size_t axes) {
  const std::int64_t size = axes == 2 ? 160 : 48;
  ir::Dims dims{1, axes == 2 ? 3 : 1};
  dims.insert(dims.end(), axes, ir::Dim(size));
  ValueId x = layers.input("x", DType::f32, dims);
  std::int64_t channels = axes == 2 ? 48 : 12;
  x = models::conv_norm(layers, "stem", x, axes == 2 ? 3 : 1, channels,
                        {.kernel = axes == 2 ? 7 : 3, .stride = axes == 2 ? 2 : 1, .axes = axes});
  std::vector<std::pair<ValueId, std::int64_t>> skips;
  for (int level = 0; level < 3; ++level) {
    layers.scope("down" + std::to_string(level));
    skips.emplace_back(x, channels);
    const bool pool = level != 1;
    if (pool) x = layers.max_pool(x, std::vector<std::int64_t>(axes, 2), 2);
    x = models::conv_norm(layers, "conv", x, channels, 2 * channels, {.kernel = 3, .stride = pool ? 1 : 2, .axes = axes});
    if (axes == 2)
      x = models::conv_norm(layers, "each", x, 2 * channels, 2 * channels,
                            {.kernel = 5, .stride = 1, .groups = 2 * channels, .activation = Activation::hard_swish});
    channels *= 2;
  }
  for (int level = 2; level >= 0; --level) {
    layers.scope("up" + std::to_string(level));
    const auto [skip, skip_channels] = skips[static_cast<std::size_t>(level)];
    const std::vector<std::int64_t> two(axes, 2);
    const ValueId weights = layers.scaled_weight(
        "up.weight", axes == 2 ? Shape{channels, skip_channels, 2, 2} : Shape{channels, skip_channels, 2, 2, 2}, channels);
    x = layers.ops().add("ConvTranspose", {x, weights}, {{"kernel_shape", two}, {"strides", two}});
    x = models::conv_norm(layers, "mix", layers.concat({x, skip}, 1), 2 * skip_channels, skip_channels, {.kernel = 3, .axes = axes});
    channels = skip_channels;
  }
  layers.scope("");
  if (axes == 2) layers.output("scores", layers.gemm("scores", models::global_average(layers, x), channels, 500));
  layers.output("y", layers.conv("last", x, channels, 5, {.kernel = std::vector<std::int64_t>(axes, 1)}));
}

// Transformer blocks of other widths than usual models have.
void transformer(LayerBuilder& layers, std::int64_t tokens, std::int64_t width, std::int64_t heads) {
  const ValueId ids = layers.input("ids", DType::i64, {1, tokens});
  ValueId x = layers.add(layers.embedding("words", ids, 5000, width), layers.weight("places", {tokens, width}, 0.5));
  for (int block = 0; block < 2; ++block) {
    layers.scope("block" + std::to_string(block));
    x = layers.layer_norm("norm1", layers.add(x, layers.attention(x, width, heads)), width);
    const ValueId up = layers.gelu(layers.linear("up", x, width, 4 * width));
    x = layers.layer_norm("norm2", layers.add(x, layers.linear("down", up, 4 * width, width)), width);
  }
  layers.scope("");
  const ValueId pooled = layers.ops().add(
      "Tanh", {layers.gemm("pool", layers.ops().add("Gather", {x, layers.ops().scalar(0, DType::i64)}, {{"axis", std::int64_t{1}}}), width,
                           width)});
  layers.output("pooled", pooled);
  layers.output("y", x);
}

// Element-wise operators, reductions and movement over `rows` rows of `row` elements.
void movement(LayerBuilder& layers, std::int64_t rows, std::int64_t row) {
  ops::GraphBuilder& ops = layers.ops();
  const ValueId input = layers.input("x", DType::f32, {rows, row});
  ValueId x = input;
  for (const char* op : {"Relu", "Sigmoid", "Exp", "Erf", "Tanh", "Sqrt", "Abs"}) x = ops.add(op, {x});
  for (const char* op : {"Add", "Mul", "Sub", "Max"}) x = ops.add(op, {x, input});
  x = ops.add("Div", {x, ops.add("Add", {input, layers.weight("row", {row}, 0.1, 2.0)})});
  x = layers.softmax(x);
  const ValueId mean = ops.add("ReduceMean", {x, ops.integers({-1})});
  x = layers.layer_norm("norm", ops.add("Sub", {x, mean}), row);
  x = layers.transpose(ops.add("Relu", {layers.transpose(x, {1, 0})}), {1, 0});
  const ValueId half = ops.add("Slice", {x, ops.integers({0}), ops.integers({row / 2}), ops.integers({1})});
  layers.output("y", layers.concat({half, x}, 1));
}

template <typename Build>
ir::Graph net(Build build) {
  ir::Graph graph;
  const models::ModelOptions options;
  LayerBuilder layers(graph, options);
  build(layers);
  return graph;
}

}  // namespace

std::vector<ir::Graph> calibration_nets() {
  std::vector<ir::Graph> nets;
  struct Channels {
    std::int64_t size, low, high;
  };
  for (const auto [size, low, high] : {Channels{96, 16, 64}, {48, 16, 128}, {24, 32, 256}, {12, 64, 512}, {6, 128, 512}}) {
    nets.push_back(net([&](LayerBuilder& layers) { convolutions(layers, size, low, high, 2); }));
  }
  for (const auto [size, low, high] : {Channels{40, 16, 32}, {20, 32, 64}, {10, 64, 128}, {5, 128, 256}}) {
    nets.push_back(net([&](LayerBuilder& layers) { convolutions(layers, size, low, high, 3); }));
  }
  nets.push_back(net([](LayerBuilder& layers) { resolutions(layers, 2); }));
  nets.push_back(net([](LayerBuilder& layers) { resolutions(layers, 3); }));
  struct Widths {
    std::int64_t tokens, width, heads;
  };
  for (const auto [tokens, width, heads] : {Widths{192, 512, 8}, {96, 1024, 16}, {24, 640, 10}, {1, 512, 8}, {320, 256, 4}}) {
    nets.push_back(net([&](LayerBuilder& layers) { transformer(layers, tokens, width, heads); }));
  }
  struct Rows {
    std::int64_t rows, row;
  };
  for (const auto [rows, row] : {Rows{1, 64}, {40, 100}, {200, 384}, {1500, 160}, {1024, 1024}, {3000, 1000}}) {
    nets.push_back(net([&](LayerBuilder& layers) { movement(layers, rows, row); }));
  }
  return nets;
}

ir::Graph calibration_net_of_small_operators() {
  return net([](LayerBuilder& layers) { movement(layers, 1, 8); });
}

}  // namespace tessera::report
