// Recipes of random graphs: integer layers as QuantizeLinear/DequantizeLinear pairs. Scales are powers of two and sums
// stay below 2^24, so that whoever adds them up, with integers or as f32, gets the same numbers; a bias keeps results
// of convolutions, which may be computed by Winograd's transforms, away from the middle between two steps.
#include "support/random_graph_maker.h"

namespace tessera::test {
namespace {

using Id = GraphMaker::Id;
using Integers = std::vector<std::int64_t>;

// Data that was quantised, with the parameters that it has.
struct Quantised {
  Id value;  // f32, behind DequantizeLinear
  Id zero_point;
};

Id zero_point(GraphMaker& g, DType type, bool middle) {
  return g.builder().scalar(type == DType::u8 && middle ? 128 : 0, type);
}

Id quantised(GraphMaker& g, Id x, double scale, Id zero) {
  const Id step = g.scalar(scale);
  return g.op("DequantizeLinear", {g.op("QuantizeLinear", {x, step, zero}), step, zero});
}

Id quantised_weights(GraphMaker& g, const Shape& shape) {
  const bool per_channel = g.chance(0.5);
  const std::int64_t axis = shape.size() == 2 ? 1 : 0, count = shape[static_cast<std::size_t>(axis)];
  const Id zero = g.builder().constant(Tensor::from<std::int8_t>({}, {0}));
  const Id data = g.whole_weights(DType::i8, shape, -20, 20);
  if (!per_channel) return g.op("DequantizeLinear", {data, g.scalar(0x1p-6), zero});
  Tensor scales(DType::f32, {count}), zeros(DType::i8, {count});
  for (float& scale : scales.mutable_values<float>()) scale = g.chance(0.5) ? 0x1p-6f : 0x1p-7f;
  for (std::int8_t& each : zeros.mutable_values<std::int8_t>()) each = 0;
  return g.op("DequantizeLinear", {data, g.builder().constant(scales), g.builder().constant(zeros)}, {{"axis", axis}});
}

// A bias of whole multiples of 2^-11 and half of 2^-13, the smallest product of scales.
Id bias(GraphMaker& g, std::int64_t count) {
  Tensor values(DType::f32, {count});
  for (float& value : values.mutable_values<float>())
    value = static_cast<float>(g.number(-2000, 2000)) * 0x1p-11f + 0x1p-14f;
  return g.builder().constant(values);
}

Id layer(GraphMaker& g, Id x) {
  if (g.rank(x) == 4 && g.all_known(x, 1)) {
    const std::int64_t channels = g.size(x, 1), made = g.one_of(Integers{1, 3, 4, 8, channels}),
                       kernel = g.one_of(Integers{1, 3});
    const bool depthwise = g.chance(0.25);
    const Id weights = quantised_weights(g, {depthwise ? channels : made, depthwise ? 1 : channels, kernel, kernel});
    return g.op("Conv", {x, weights, bias(g, depthwise ? channels : made)},
                {{"kernel_shape", Integers{kernel, kernel}},
                 {"pads", Integers(4, kernel / 2)},
                 {"group", depthwise ? channels : std::int64_t{1}}});
  }
  GraphMaker::need(g.rank(x) >= 2 && g.known(x, g.rank(x) - 1));
  const std::int64_t from = g.size(x, g.rank(x) - 1), to = g.number(1, 9);
  const Id y = g.op("MatMul", {x, quantised_weights(g, {from, to})});
  return g.chance(0.5) ? g.op("Add", {y, bias(g, to)}) : y;
}

void integer_layers(GraphMaker& g) {
  const Id input = g.input_of_floats();
  g.set_exact(true);
  const DType type = g.chance(0.5) ? DType::u8 : DType::i8;
  const Id zero = zero_point(g, type, g.chance(0.7));
  Id x = quantised(g, input, 0x1p-6, zero);
  for (std::int64_t layers = g.number(1, 2); layers > 0; --layers) {
    const Id before = x;
    Id y = layer(g, x);
    if (g.chance(0.4)) y = g.op("Relu", {y});
    x = quantised(g, y, g.chance(0.5) ? 0x1p-5 : 0x1p-4, zero);
    if (g.dims(x) == g.dims(before) && g.chance(0.5)) x = quantised(g, g.op("Add", {x, before}), 0x1p-4, zero);
  }
  if (g.rank(x) == 4 && g.chance(0.3))
    x = quantised(g, g.op("MaxPool", {x}, {{"kernel_shape", Integers{2, 2}}}), 0x1p-4, zero);
  g.set_exact(false);
  g.offer(x);
}

}  // namespace

std::vector<Recipe> quantised_recipes() {
  return {integer_layers};
}

}  // namespace tessera::test
