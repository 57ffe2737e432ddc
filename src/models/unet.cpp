#include "base/error.h"
#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

ValueId double_conv(LayerBuilder& layers, ValueId x, std::size_t axes, std::int64_t in, std::int64_t out) {
  x = conv_norm(layers, "1", x, in, out, {.axes = axes});
  return conv_norm(layers, "2", x, out, out, {.axes = axes});
}

// Doubles every spatial size by a transposed convolution of kernel 2 and stride 2, in which windows do not overlap.
ValueId upsample(LayerBuilder& layers, ValueId x, std::size_t axes, std::int64_t in, std::int64_t out) {
  Shape shape{in, out};
  shape.insert(shape.end(), axes, 2);
  const std::vector<std::int64_t> twos(axes, 2);
  const ValueId weight = layers.scaled_weight("up.weight", shape, in, 1), bias = layers.weight("up.bias", {out}, 0.02);
  return layers.ops().add("ConvTranspose", {x, weight, bias}, {{"kernel_shape", twos}, {"strides", twos}});
}

// x is [batch, channels, spatial...]; each of the `levels` halves the spatial size and doubles the width.
ValueId unet(LayerBuilder& layers, ValueId x, std::size_t axes, std::int64_t channels, std::int64_t width,
             std::size_t levels, std::int64_t classes) {
  std::vector<ValueId> skips;
  for (std::size_t level = 0; level < levels; ++level) {
    layers.scope("down" + std::to_string(level));
    skips.push_back(double_conv(layers, x, axes, channels, width));
    x = layers.max_pool(skips.back(), std::vector<std::int64_t>(axes, 2), 2);
    channels = width;
    width *= 2;
  }
  layers.scope("bottom");
  x = double_conv(layers, x, axes, channels, width);
  for (std::size_t level = levels; level-- > 0;) {
    layers.scope("up" + std::to_string(level));
    x = layers.concat({skips[level], upsample(layers, x, axes, width, width / 2)}, 1);
    x = double_conv(layers, x, axes, width, width / 2);
    width /= 2;
  }
  layers.scope("");
  return layers.conv("classifier", x, width, classes, {.kernel = std::vector<std::int64_t>(axes, 1)});
}

}  // namespace

ir::Graph build_unet2d(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "unet2d";
  LayerBuilder layers(graph, options);
  const ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 3, 256, 256});
  layers.output("output", unet(layers, x, 2, 3, 32, 4, 2));
  return graph;
}

// `size`: height and width of the image, a multiple of 4.
ir::Graph build_unet_small(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "unet_small";
  LayerBuilder layers(graph, options);
  const std::int64_t channels = layers.size("channels", 1), size = layers.size("size", 32);
  require(size % 4 == 0, ErrorKind::invalid_argument, "unet_small: size is {}, expected a multiple of 4", size);
  const ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), channels, size, size});
  layers.output("output", unet(layers, x, 2, channels, layers.size("width", 8), 2, layers.size("classes", 2)));
  return graph;
}

ir::Graph build_unet3d(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "unet3d";
  LayerBuilder layers(graph, options);
  const ValueId x = layers.input("input", DType::f32, {layers.dim("batch"), 1, 64, 64, 64});
  layers.output("output", unet(layers, x, 3, 1, 16, 3, 2));
  return graph;
}

}  // namespace tessera::models
