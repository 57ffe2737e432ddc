#include "report/measure/calibration_nets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "models/layers.h"
#include "models/vision_blocks.h"

namespace tessera::report {
namespace {

using models::BlockActivation;
using models::LayerBuilder;
using models::ValueId;

// Convolutions with one number of positions: channels from `low` to `high`, with windows of 1, 3 and 5, ordinary and
// depthwise, with and without activations and sums.
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
                          {.kernel = 1, .activation = BlockActivation::relu6, .axes = axes});
    x = layers.add(models::conv_norm(layers, "back", x, std::max<std::int64_t>(channels / 4, 8), channels,
                                     {.kernel = 1, .activation = BlockActivation::none, .axes = axes}),
                   entry);
    if (axes == 2) {
      const ValueId wide_x = models::conv_norm(layers, "expand", x, channels, 3 * channels,
                                               {.kernel = 1, .activation = BlockActivation::relu6});
      const ValueId filtered =
          models::conv_norm(layers, "each", wide_x, 3 * channels, 3 * channels,
                            {.kernel = 3, .groups = 3 * channels, .activation = BlockActivation::relu6});
      x = layers.add(models::conv_norm(layers, "project", filtered, 3 * channels, channels,
                                       {.kernel = 1, .activation = BlockActivation::none}),
                     x);
    }
    if (wide)
      x = models::conv_norm(layers, "widen", x, channels, 2 * channels,
                            {.kernel = channels <= 32 ? 3 : 1, .axes = axes});
  }
  layers.scope("");
  layers.output("y", x);
}

// Operators that change the number of positions: strides, first layers of three channels, pooling, upsampling,
// concatenation.
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
    x = models::conv_norm(layers, "conv", x, channels, 2 * channels,
                          {.kernel = 3, .stride = pool ? 1 : 2, .axes = axes});
    if (axes == 2)
      x = models::conv_norm(
          layers, "each", x, 2 * channels, 2 * channels,
          {.kernel = 5, .stride = 1, .groups = 2 * channels, .activation = BlockActivation::hard_swish});
    channels *= 2;
  }
  for (int level = 2; level >= 0; --level) {
    layers.scope("up" + std::to_string(level));
    const auto [skip, skip_channels] = skips[static_cast<std::size_t>(level)];
    const std::vector<std::int64_t> two(axes, 2);
    const ValueId weights = layers.scaled_weight(
        "up.weight", axes == 2 ? Shape{channels, skip_channels, 2, 2} : Shape{channels, skip_channels, 2, 2, 2},
        channels);
    x = layers.ops().add("ConvTranspose", {x, weights}, {{"kernel_shape", two}, {"strides", two}});
    x = models::conv_norm(layers, "mix", layers.concat({x, skip}, 1), 2 * skip_channels, skip_channels,
                          {.kernel = 3, .axes = axes});
    channels = skip_channels;
  }
  layers.scope("");
  if (axes == 2) layers.output("scores", layers.gemm("scores", models::global_average(layers, x), channels, 500));
  layers.output("y", layers.conv("last", x, channels, 5, {.kernel = std::vector<std::int64_t>(axes, 1)}));
}

// Operators that move feature maps and compute little: concatenation, pooling, per-channel gates, layers of few output
// channels, a classifier of one row.
void maps(LayerBuilder& layers, std::int64_t size, std::int64_t channels, std::size_t axes) {
  ir::Dims dims{1, channels};
  dims.insert(dims.end(), axes, ir::Dim(size));
  const ValueId input = layers.input("x", DType::f32, dims);
  const auto pointwise = [&](const char* name, ValueId x, std::int64_t from, std::int64_t to,
                             BlockActivation activation) {
    return models::conv_norm(layers, name, x, from, to, {.kernel = 1, .activation = activation, .axes = axes});
  };
  const ValueId left = pointwise("left", input, channels, channels, BlockActivation::relu),
                right = pointwise("right", input, channels, channels, BlockActivation::silu);
  const ValueId both = layers.concat({left, right}, 1);
  layers.output("few", pointwise("few", both, 2 * channels, 3, BlockActivation::none));
  const ValueId filtered =
      models::conv_norm(layers, "filtered", both, 2 * channels, channels, {.kernel = 3, .axes = axes});
  const ValueId halved = layers.max_pool(both, std::vector<std::int64_t>(axes, 2), 2),
                overlapping = layers.max_pool(filtered, std::vector<std::int64_t>(axes, 3), 2, 1);
  ValueId pooled = models::global_average(layers, halved);
  if (axes == 2) {
    const ValueId gated = models::squeeze_excite(layers, halved, 2 * channels, 8 * ((channels + 15) / 16),
                                                 BlockActivation::relu, BlockActivation::hard_sigmoid);
    pooled = models::global_average(
        layers,
        models::conv_norm(layers, "each", gated, 2 * channels, 2 * channels,
                          {.kernel = 3, .stride = 2, .groups = 2 * channels, .activation = BlockActivation::relu6}));
  }
  layers.output("scores", layers.gemm("scores", pooled, 2 * channels, 600));
  layers.output("means", models::global_average(layers, overlapping));
}

// x rounded to int8, and dequantised again.
ValueId quantised(LayerBuilder& layers, ValueId x) {
  ops::GraphBuilder& ops = layers.ops();
  const ValueId scale = ops.scalar(0.05), zero = ops.scalar(128, DType::u8);
  return ops.add("DequantizeLinear", {ops.add("QuantizeLinear", {x, scale, zero}), scale, zero});
}

// int8 weights, dequantised with a scale for each index of `axis`.
ValueId byte_weights(LayerBuilder& layers, const std::string& name, Shape shape, std::int64_t axis) {
  Tensor bytes(DType::i8, shape);
  std::int8_t* data = bytes.mutable_data<std::int8_t>();
  for (std::int64_t i = 0; i < bytes.elements(); ++i) data[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
  const ValueId scales = layers.weight(name + ".scale", {shape[static_cast<std::size_t>(axis)]}, 1e-5, 1e-3);
  return layers.ops().add("DequantizeLinear", {layers.ops().constant(std::move(bytes), name), scales},
                          {{"axis", axis}});
}

// int8 convolutions with one number of positions, like those of `convolutions`.
void quantised_convolutions(LayerBuilder& layers, std::int64_t size, std::int64_t low, std::int64_t high) {
  ValueId x = quantised(layers, layers.input("x", DType::f32, {1, low, size, size}));
  const auto conv = [&](const std::string& name, ValueId data, std::int64_t from, std::int64_t to, std::int64_t kernel,
                        std::int64_t groups, bool relu) {
    const ValueId weights = byte_weights(layers, name, {to, from / groups, kernel, kernel}, 0);
    ValueId y = layers.ops().add("Conv", {data, weights, layers.weight(name + ".bias", {to}, 0.02)},
                                 {{"kernel_shape", std::vector<std::int64_t>(2, kernel)},
                                  {"pads", std::vector<std::int64_t>(4, kernel / 2)},
                                  {"group", groups}});
    if (relu) y = layers.relu(y);
    return quantised(layers, y);
  };
  for (std::int64_t channels = low; channels <= high; channels *= 2) {
    const std::string name = "c" + std::to_string(channels);
    const std::int64_t narrow = std::max<std::int64_t>(channels / 4, 16);
    const ValueId entry = x;
    x = conv(name + ".narrow", x, channels, narrow, 1, 1, true);
    x = conv(name + ".same", x, narrow, narrow, 3, 1, true);
    x = quantised(layers, layers.relu(layers.add(conv(name + ".back", x, narrow, channels, 1, 1, false), entry)));
    x = conv(name + ".each", conv(name + ".expand", x, channels, 3 * channels, 1, 1, true), 3 * channels, 3 * channels,
             3, 3 * channels, true);
    x = conv(name + ".project", x, 3 * channels, channels, 1, 1, false);
    if (channels * 2 <= high) x = conv(name + ".widen", x, channels, 2 * channels, 3, 1, true);
  }
  layers.output("y", quantised(layers, layers.max_pool(x, {2, 2}, 2)));
}

// int8 linear layers with float activations between them, as transformers are quantised.
void quantised_linears(LayerBuilder& layers, std::int64_t tokens, std::int64_t width) {
  ValueId x = layers.input("x", DType::f32, {tokens, width});
  const auto linear = [&](const char* name, ValueId data, std::int64_t from, std::int64_t to) {
    const ValueId product =
        layers.ops().add("MatMul", {quantised(layers, data), byte_weights(layers, name, {from, to}, 1)});
    return layers.add(product, layers.weight(std::string(name) + ".bias", {to}, 0.02));
  };
  for (int block = 0; block < 2; ++block) {
    layers.scope("block" + std::to_string(block));
    const ValueId up = layers.gelu(linear("up", x, width, 3 * width));
    x = layers.layer_norm("norm1", layers.add(x, linear("down", up, 3 * width, width)), width);
    x = layers.layer_norm("norm2", layers.add(x, linear("same", x, width, width)), width);
  }
  layers.scope("");
  layers.output("y", x);
}

// Transformer blocks of widths that usual models do not have.
void transformer(LayerBuilder& layers, std::int64_t tokens, std::int64_t width, std::int64_t heads) {
  const ValueId ids = layers.input("ids", DType::i64, {1, tokens});
  const ValueId words = layers.embedding("words", ids, 5000, width),
                kinds = layers.embedding("kinds", layers.input("kinds", DType::i64, {1, tokens}), 2, width);
  ValueId x = layers.layer_norm(
      "norm", layers.add(layers.add(words, kinds), layers.weight("places", {tokens, width}, 0.5)), width);
  // A mask that is added to the scores: zero for tokens that count.
  ops::GraphBuilder& ops = layers.ops();
  const ValueId counts =
      ops.add("Cast", {layers.input("mask", DType::i64, {1, 1, 1, tokens})}, {{"to", std::int64_t{1}}});
  const ValueId mask = layers.multiply(ops.add("Sub", {ops.scalar(1.0), counts}), ops.scalar(-1e4));
  for (int block = 0; block < 2; ++block) {
    layers.scope("block" + std::to_string(block));
    x = layers.layer_norm("norm1", layers.add(x, layers.attention(x, width, heads, mask)), width);
    const ValueId up = layers.gelu(layers.linear("up", x, width, 4 * width));
    x = layers.layer_norm("norm2", layers.add(x, layers.linear("down", up, 4 * width, width)), width);
  }
  layers.scope("");
  const ValueId first = ops.add("Gather", {x, ops.scalar(0, DType::i64)}, {{"axis", std::int64_t{1}}});
  layers.output("pooled", ops.add("Tanh", {layers.gemm("pool", first, width, width)}));
  layers.output("y", x);
}

// LSTM and GRU of several widths, forward and bidirectional. Depending on their size, the weights of a step come from
// one cache or another.
void recurrent(LayerBuilder& layers, std::int64_t steps, std::int64_t batch) {
  constexpr std::int64_t features = 64;
  ops::GraphBuilder& ops = layers.ops();
  const ValueId x = layers.input("x", DType::f32, {steps, batch, features});
  for (const std::int64_t width : {48, 96, 192, 320, 640}) {
    for (const auto& [op, gates] : {std::pair{"LSTM", std::int64_t{4}}, {"GRU", std::int64_t{3}}}) {
      const std::int64_t directions = op == std::string_view("LSTM") && width < 320 ? 2 : 1;
      layers.scope(fmt::format("{}{}", op, width));
      const double deviation = 0.5 / std::sqrt(static_cast<double>(width));
      const ValueId input_weights = layers.weight("w", {directions, gates * width, features}, deviation),
                    recurrent_weights = layers.weight("r", {directions, gates * width, width}, deviation),
                    bias = layers.weight("b", {directions, 2 * gates * width}, deviation);
      ir::Attributes attributes{{"hidden_size", width},
                                {"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
      if (op == std::string_view("GRU")) attributes["linear_before_reset"] = std::int64_t{1};
      const ValueId y = ops.add_multi(op, {x, input_weights, recurrent_weights, bias}, 1, attributes)[0];
      layers.output(fmt::format("{}{}", op, width), ops.add("Tanh", {y}));
    }
  }
}

// Element-wise operators, reductions and movement over `rows` rows of `row` elements.
void movement(LayerBuilder& layers, std::int64_t rows, std::int64_t row) {
  ops::GraphBuilder& ops = layers.ops();
  const ValueId input = layers.input("x", DType::f32, {rows, row});
  ValueId x = input;
  for (const char* op : {"Relu", "Sigmoid", "Exp", "Erf", "Tanh", "Sqrt", "Abs"}) x = ops.add(op, {x});
  for (const char* op : {"Add", "Mul", "Sub", "Max"}) x = ops.add(op, {x, input});
  x = ops.cast(ops.cast(x, DType::bf16), DType::f32);
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
  const models::BuildOptions options;
  LayerBuilder layers(graph, options);
  build(layers);
  return graph;
}

}  // namespace

std::vector<CalibrationNet> calibration_nets() {
  std::vector<CalibrationNet> nets;
  struct Channels {
    std::int64_t size, low, high;
  };
  for (const auto [size, low, high] :
       {Channels{96, 16, 64}, {48, 16, 128}, {24, 32, 256}, {12, 64, 512}, {6, 128, 512}}) {
    nets.push_back({net([&](LayerBuilder& layers) { convolutions(layers, size, low, high, 2); })});
  }
  for (const auto [size, low, high] : {Channels{40, 16, 32}, {20, 32, 64}, {10, 64, 128}, {5, 128, 256}}) {
    nets.push_back({net([&](LayerBuilder& layers) { convolutions(layers, size, low, high, 3); })});
  }
  nets.push_back({net([](LayerBuilder& layers) { resolutions(layers, 2); })});
  nets.push_back({net([](LayerBuilder& layers) { resolutions(layers, 3); })});
  struct Maps {
    std::int64_t size, channels;
    std::size_t axes;
  };
  for (const auto [size, channels, axes] : {Maps{208, 3, 2},
                                            {144, 32, 2},
                                            {72, 80, 2},
                                            {36, 24, 2},
                                            {18, 48, 2},
                                            {20, 320, 2},
                                            {9, 640, 2},
                                            {56, 20, 3},
                                            {28, 40, 3},
                                            {14, 72, 3}}) {
    nets.push_back({net([&](LayerBuilder& layers) { maps(layers, size, channels, axes); })});
  }
  struct Widths {
    std::int64_t tokens, width, heads;
  };
  for (const auto [tokens, width, heads] :
       {Widths{192, 512, 8}, {96, 1024, 16}, {24, 640, 10}, {1, 512, 8}, {320, 256, 4}}) {
    nets.push_back({net([&](LayerBuilder& layers) { transformer(layers, tokens, width, heads); })});
  }
  for (const auto& [steps, batch] : {std::pair<std::int64_t, std::int64_t>{24, 1}, {150, 1}, {30, 4}, {20, 16}}) {
    nets.push_back({net([&](LayerBuilder& layers) { recurrent(layers, steps, batch); })});
  }
  struct Rows {
    std::int64_t rows, row;
  };
  for (const auto [rows, row] : {Rows{1, 64}, {40, 100}, {200, 384}, {1500, 160}, {1024, 1024}, {3000, 1000}}) {
    nets.push_back({net([&](LayerBuilder& layers) { movement(layers, rows, row); }), false, false});
  }
  for (const auto [size, low, high] : {Channels{80, 16, 64}, {40, 32, 128}, {20, 64, 256}, {8, 128, 512}}) {
    nets.push_back({net([&](LayerBuilder& layers) { quantised_convolutions(layers, size, low, high); }), true, false});
  }
  for (const auto& [tokens, width] :
       {std::pair<std::int64_t, std::int64_t>{160, 512}, {80, 896}, {1, 640}, {400, 256}}) {
    nets.push_back({net([&](LayerBuilder& layers) { quantised_linears(layers, tokens, width); }), true, false});
  }
  return nets;
}

ir::Graph calibration_net_of_small_operators() {
  return net([](LayerBuilder& layers) { movement(layers, 1, 8); });
}

}  // namespace tessera::report
