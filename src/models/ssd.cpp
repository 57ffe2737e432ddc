#include <array>
#include <cmath>
#include <limits>

#include "models/nets.h"
#include "models/vision_blocks.h"

namespace tessera::models {
namespace {

constexpr std::int64_t kAnchorsPerCell = 4, kClasses = 21;  // class 0 is the background
constexpr std::array<std::int64_t, 4> kGrids{19, 10, 5, 3}, kChannels{128, 256, 128, 128};
constexpr std::array<double, 5> kScales{0.15, 0.35, 0.55, 0.75, 0.95};  // of anchors, relative to the image

struct Anchors {
  Tensor centers, sizes;  // f32 [1, anchors, 2] as (y, x) and (height, width), relative to the image
};

// In each cell a square of the grid's scale, one between this and the next grid's, and two of aspect 2 and 1/2.
Anchors make_anchors() {
  std::vector<float> centers, sizes;
  for (std::size_t grid = 0; grid < kGrids.size(); ++grid) {
    const double scale = kScales[grid], between = std::sqrt(scale * kScales[grid + 1]), root = std::sqrt(2.0);
    const double shapes[kAnchorsPerCell][2] = {
        {scale, scale}, {between, between}, {scale * root, scale / root}, {scale / root, scale * root}};
    for (std::int64_t cell = 0; cell < kGrids[grid] * kGrids[grid]; ++cell) {
      for (const auto& [height, width] : shapes) {
        for (std::int64_t position : {cell / kGrids[grid], cell % kGrids[grid]})
          centers.push_back(
              static_cast<float>((static_cast<double>(position) + 0.5) / static_cast<double>(kGrids[grid])));
        for (double size : {height, width}) sizes.push_back(static_cast<float>(size));
      }
    }
  }
  const Shape shape{1, static_cast<std::int64_t>(centers.size() / 2), 2};
  return {Tensor::from<float>(shape, std::span<const float>(centers)),
          Tensor::from<float>(shape, std::span<const float>(sizes))};
}

ValueId separable(LayerBuilder& layers, const std::string& name, ValueId x, std::int64_t in, std::int64_t out,
                  std::int64_t stride) {
  layers.scope(name);
  x = conv_norm(layers, "depthwise", x, in, in, {.stride = stride, .groups = in, .activation = BlockActivation::relu6});
  return conv_norm(layers, "pointwise", x, in, out, {.kernel = 1, .activation = BlockActivation::relu6});
}

// Feature maps of the sizes and widths in kGrids and kChannels.
std::vector<ValueId> backbone(LayerBuilder& layers, ValueId images) {
  ValueId x = conv_norm(layers, "stem", images, 3, 16, {.stride = 2, .activation = BlockActivation::relu6});
  x = separable(layers, "block0", x, 16, 32, 2);
  x = separable(layers, "block1", x, 32, 64, 2);
  x = separable(layers, "block2", x, 64, 64, 1);
  x = separable(layers, "block3", x, 64, 128, 2);
  std::vector<ValueId> maps{separable(layers, "block4", x, 128, 128, 1)};
  for (std::size_t i = 1; i < kGrids.size(); ++i)
    maps.push_back(separable(layers, "extra" + std::to_string(i), maps.back(), kChannels[i - 1], kChannels[i], 2));
  layers.scope("");
  return maps;
}

// `columns` predictions for each anchor of every map: [batch, anchors, columns]. `gain` is the variance of a prediction
// relative to the features': larger for classes, so that random weights are sure of some.
ValueId predict(LayerBuilder& layers, const std::string& name, const std::vector<ValueId>& maps, std::int64_t columns,
                double gain) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::string head = name + "." + std::to_string(i);
    const std::int64_t out = kAnchorsPerCell * columns;
    const ValueId weight = layers.scaled_weight(head + ".weight", {out, kChannels[i], 3, 3}, kChannels[i] * 9, gain);
    const ValueId y = layers.ops().add(
        "Conv", {maps[i], weight, layers.weight(head + ".bias", {out}, 0.02)},
        {{"kernel_shape", std::vector<std::int64_t>{3, 3}}, {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
    parts.push_back(
        layers.reshape(layers.transpose(y, {0, 2, 3, 1}), {0, kGrids[i] * kGrids[i] * kAnchorsPerCell, columns}));
  }
  return layers.concat(parts, 1);
}

// Corners (y1, x1, y2, x2) from offsets (center, size) to anchors with variances 0.1 and 0.2 (arXiv:1512.02325, 2.2).
ValueId decode(LayerBuilder& layers, ValueId offsets) {
  ops::GraphBuilder& ops = layers.ops();
  const Anchors anchors = make_anchors();
  const ValueId anchor_sizes = ops.constant(anchors.sizes, "anchors.sizes");
  const std::vector<ValueId> halves =
      ops.add_multi("Split", {offsets}, 2, {{"axis", std::int64_t{2}}, {"num_outputs", std::int64_t{2}}});
  const ValueId shift = layers.multiply(layers.multiply(halves[0], ops.scalar(0.1)), anchor_sizes);
  const ValueId centers = layers.add(shift, ops.constant(anchors.centers, "anchors.centers"));
  const ValueId growth = ops.add("Exp", {layers.multiply(halves[1], ops.scalar(0.2))});
  const ValueId half_sizes = layers.multiply(layers.multiply(growth, anchor_sizes), ops.scalar(0.5));
  return layers.concat({ops.add("Sub", {centers, half_sizes}), layers.add(centers, half_sizes)}, 2);
}

}  // namespace

// "boxes" [batch, anchors, 4] and "scores" [batch, classes, anchors] are all predictions; "selected" holds a row
// (batch, class, anchor) for each that is kept.
ir::Graph build_ssd(const BuildOptions& options) {
  ir::Graph graph;
  graph.name = "ssd";
  LayerBuilder layers(graph, options);
  ops::GraphBuilder& ops = layers.ops();
  const ValueId images = layers.input("images", DType::f32, {layers.dim("batch"), 3, 300, 300});
  const std::vector<ValueId> maps = backbone(layers, images);
  const ValueId boxes = decode(layers, predict(layers, "box", maps, 4, 1));
  const ValueId all = layers.transpose(layers.softmax(predict(layers, "class", maps, kClasses, 40)), {0, 2, 1});
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const ValueId scores = ops.add("Slice", {all, ops.integers({1}), ops.integers({kEnd}), ops.integers({1})});
  const ValueId overlap = ops.constant(Tensor::from<float>({1}, {0.5f})),
                least = ops.constant(Tensor::from<float>({1}, {0.3f}));
  const ValueId selected = ops.add("NonMaxSuppression", {boxes, scores, ops.integers({50}), overlap, least});
  layers.output("boxes", boxes);
  layers.output("scores", scores);
  layers.output("selected", selected);
  return graph;
}

}  // namespace tessera::models
