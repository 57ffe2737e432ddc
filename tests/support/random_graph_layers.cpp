// Recipes of random graphs: layers.
#include <cmath>

#include "support/random_graph_maker.h"

namespace tessera::test {
namespace {

using Id = GraphMaker::Id;
using Names = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

bool is_map(GraphMaker& g, Id id) {
  return g.rank(id) >= 3 && g.rank(id) <= 5 && g.all_known(id, 1);
}
Id pick_map(GraphMaker& g) {
  return g.pick([&](Id id) { return is_map(g, id); });
}

Id activation(GraphMaker& g, Id x) {
  const std::string op = g.one_of(
      Names{"", "", "Relu", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "Silu", "Mish", "Elu"});
  if (op.empty()) return x;
  if (op == "Clip") return g.op(op, {x, g.scalar(0), g.scalar(6)});
  if (op == "Silu") return g.op("Mul", {x, g.op("Sigmoid", {x})});
  return g.op(op, {x});
}

Id batch_normalised(GraphMaker& g, Id x) {
  const Shape channels{g.size(x, 1)};
  return g.op("BatchNormalization", {x, g.weights(channels, 0.5, 1.5), g.weights(channels), g.weights(channels),
                                     g.weights(channels, 0.5, 1.5)});
}

// What often stands behind a linear layer.
Id followed(GraphMaker& g, Id y, Id residual) {
  if (g.chance(0.15)) g.offer(y);
  if (g.chance(0.35)) y = batch_normalised(g, y);
  else if (g.chance(0.25)) {
    Shape shape(static_cast<std::size_t>(g.rank(y)) - 1, 1);
    shape[0] = g.size(y, 1);
    y = g.op(g.one_of(Names{"Add", "Mul"}), {y, g.weights(shape)});
  }
  const bool same = g.dims(y) == g.dims(residual);
  if (same && g.chance(0.3)) return g.op("Add", {activation(g, y), residual});
  if (same && g.chance(0.5)) return activation(g, g.op("Add", {residual, y}));
  return activation(g, y);
}

// Arithmetic a channel at a time, and what may let it through to a layer.
void scaled_layer(GraphMaker& g) {
  Id x = pick_map(g);
  Shape shape(static_cast<std::size_t>(g.rank(x)) - 1, 1);
  shape[0] = g.size(x, 1);
  Id y = g.op("Mul", {x, g.weights(shape, g.chance(0.8) ? 0.5 : -1, 1.5)});
  if (g.chance(0.5)) y = g.op(g.one_of(Names{"Add", "Sub"}), {y, g.weights(shape)});
  if (g.chance(0.2)) g.offer(y);
  if (g.chance(0.4)) y = g.op("Relu", {y});
  const Integers two(static_cast<std::size_t>(g.rank(x)) - 2, 2), ones(2 * two.size(), g.number(0, 1));
  if (g.chance(0.4))
    y = g.chance(0.5)
            ? g.op("MaxPool", {y}, {{"kernel_shape", two}, {"pads", ones}})
            : g.op("AveragePool", {y}, {{"kernel_shape", two}, {"pads", ones}, {"count_include_pad", g.number(0, 1)}});
  else if (g.chance(0.3)) y = g.op("Concat", {y, x}, {{"axis", std::int64_t{1}}});
  const std::int64_t channels = g.size(y, 1);
  const double bound = std::sqrt(3.0 / static_cast<double>(channels));
  if (g.chance(0.2))
    return g.offer(
        g.op("Gemm", {g.op("Flatten", {g.op("GlobalAveragePool", {y})}), g.weights({channels, 3}, -bound, bound)}));
  Shape weights{3, channels};
  weights.resize(static_cast<std::size_t>(g.rank(y)), g.number(1, 2));
  g.offer(g.op("Conv", {y, g.weights(weights, -bound, bound)}, {{"pads", Integers(ones.size(), g.number(0, 1))}}));
}

struct Window {
  ir::Attributes attributes;
  Shape kernel;
};

Window window(GraphMaker& g, Id x, bool dilates) {
  const auto spatial = static_cast<std::size_t>(g.rank(x)) - 2;
  Window result{{}, Shape(spatial)};
  Integers strides(spatial), dilations(spatial), pads(2 * spatial);
  const bool plain = g.chance(0.35);
  for (std::size_t i = 0; i < spatial; ++i) {
    result.kernel[i] = plain ? (result.kernel[0] == 0 ? g.one_of(Integers{1, 3}) : result.kernel[0]) : g.number(1, 3);
    strides[i] = plain || g.chance(0.6) ? 1 : g.number(1, 2);
    dilations[i] = dilates && !plain && g.chance(0.25) ? 2 : 1;
    const std::int64_t most = result.kernel[i] - 1;
    pads[i] = plain ? most / 2 : g.number(0, most);
    pads[spatial + i] = plain ? most / 2 : g.chance(0.5) ? pads[i] : g.number(0, most);
    // The outer taps of some windows lie outside of the map.
    if (dilations[i] == 2 && result.kernel[i] == 3 && pads[i] > 0) {
      dilations[i] = pads[i] = pads[spatial + i] = g.size(x, static_cast<std::int64_t>(i) + 2);
    }
  }
  result.attributes = {{"kernel_shape", result.kernel}, {"strides", strides}, {"pads", pads}};
  if (dilates) result.attributes["dilations"] = dilations;
  return result;
}

void conv(GraphMaker& g) {
  const Id x = pick_map(g);
  Window shape = window(g, x, true);
  const std::int64_t channels = g.size(x, 1);
  std::int64_t group = 1, made = g.one_of(Integers{1, 3, 4, 8, 16, channels});
  if (g.chance(0.25)) group = made = channels;
  else if (channels % 2 == 0 && made % 2 == 0 && g.chance(0.3)) group = 2;
  shape.attributes["group"] = group;
  Shape weights{made, channels / group};
  weights.insert(weights.end(), shape.kernel.begin(), shape.kernel.end());
  const double bound = std::sqrt(3.0 / static_cast<double>(element_count(weights) / made));
  std::vector<Id> inputs{x, g.weights(weights, -bound, bound)};
  if (g.chance(0.6)) inputs.push_back(g.weights({made}));
  g.offer(followed(g, g.op("Conv", inputs, shape.attributes), x));
}

void conv_transpose(GraphMaker& g) {
  const Id x = pick_map(g);
  Window shape = window(g, x, g.chance(0.3));
  const std::int64_t channels = g.size(x, 1), group = channels % 2 == 0 && g.chance(0.25) ? 2 : 1,
                     made = g.number(1, 4);
  shape.attributes["group"] = group;
  Shape weights{channels, made};
  weights.insert(weights.end(), shape.kernel.begin(), shape.kernel.end());
  const double bound = std::sqrt(3.0 / static_cast<double>(channels / group));
  std::vector<Id> inputs{x, g.weights(weights, -bound, bound)};
  if (g.chance(0.5)) inputs.push_back(g.weights({made * group}));
  g.offer(followed(g, g.op("ConvTranspose", inputs, shape.attributes), x));
}

// Zeros around the data, and what may take them into its window.
void padded_window(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return is_map(g, id) && g.rank(id) == 4; });
  const std::int64_t channels = g.size(x, 1), low = g.number(0, 2), high = g.chance(0.7) ? low : g.number(0, 2);
  const Id padded = g.op("Pad", {x, g.integers({0, 0, low, low, 0, 0, high, high})});
  if (g.chance(0.3))
    return g.offer(
        g.op("AveragePool", {padded}, {{"kernel_shape", Integers{2, 2}}, {"count_include_pad", g.number(0, 1)}}));
  if (g.chance(0.3)) return g.offer(g.op("MaxPool", {padded}, {{"kernel_shape", Integers{2, 2}}}));
  const double bound = std::sqrt(3.0 / static_cast<double>(9 * channels));
  g.offer(
      g.op("Conv", {padded, g.weights({4, channels, 3, 3}, -bound, bound)},
           {{"kernel_shape", Integers{3, 3}}, {"pads", g.chance(0.6) ? Integers{0, 0, 0, 0} : Integers{1, 1, 1, 1}}}));
}

void pool(GraphMaker& g) {
  const Id x = pick_map(g);
  const bool average = g.chance(0.5);
  Window shape = window(g, x, g.chance(0.2));
  if (average) shape.attributes["count_include_pad"] = g.number(0, 1);
  if (g.chance(0.2)) shape.attributes["ceil_mode"] = std::int64_t{1};
  g.offer(g.op(average ? "AveragePool" : "MaxPool", {x}, shape.attributes));
}

void global_pool(GraphMaker& g) {
  const Id y = g.op(g.one_of(Names{"GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"}), {pick_map(g)});
  g.offer(g.chance(0.5) ? y : g.op("Flatten", {y}));
}

// Squeeze and excitation.
void excite(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return is_map(g, id) && g.rank(id) == 4; });
  const std::int64_t channels = g.size(x, 1), inner = 2;
  Id y = g.op("GlobalAveragePool", {x});
  y = g.op("Relu", {g.op("Conv", {y, g.weights({inner, channels, 1, 1}), g.weights({inner})})});
  y = g.op(g.chance(0.5) ? "Sigmoid" : "HardSigmoid", {g.op("Conv", {y, g.weights({channels, inner, 1, 1})})});
  g.offer(g.op("Mul", {x, y}));
}

void matmul(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 2 && g.known(id, g.rank(id) - 1); });
  const std::int64_t from = g.size(x, g.rank(x) - 1), to = g.one_of(Integers{1, 3, 4, 8, 16, from});
  const double bound = std::sqrt(3.0 / static_cast<double>(from));
  Id y = g.op("MatMul", {x, g.weights({from, to}, -bound, bound)});
  if (g.chance(0.6)) y = g.chance(0.5) ? g.op("Add", {y, g.weights({to})}) : g.op("Add", {g.weights({to}), y});
  if (g.dims(x) == g.dims(y) && g.chance(0.3)) y = g.op("Add", {x, y});
  g.offer(activation(g, y));
}

void gemm(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 2 && g.known(id, 1); });
  const std::int64_t from = g.size(x, 1), to = g.number(1, 9), transposed = g.number(0, 1);
  const double bound = std::sqrt(3.0 / static_cast<double>(from));
  std::vector<Id> inputs{x, g.weights(transposed != 0 ? Shape{to, from} : Shape{from, to}, -bound, bound)};
  if (g.chance(0.6)) inputs.push_back(g.weights(g.chance(0.7) ? Shape{to} : Shape{1}));
  ir::Attributes attributes{{"transB", transposed}};
  if (g.chance(0.2)) attributes["alpha"] = 0.5f;
  if (g.chance(0.2)) attributes["beta"] = 2.0f;
  g.offer(activation(g, g.op("Gemm", inputs, attributes)));
}

// Of two values that both are known only in the run.
void product(GraphMaker& g) {
  const Id a = g.pick([&](Id id) { return g.rank(id) >= 2 && g.rank(id) <= 4; });
  const Id b = g.chance(0.5) ? a : g.pick([&](Id id) { return g.rank(id) == g.rank(a); });
  Integers perm;
  for (std::int64_t axis = 0; axis < g.rank(b); ++axis) perm.push_back(axis);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  g.offer(g.op("Mul", {g.op("MatMul", {a, g.op("Transpose", {b}, {{"perm", perm}})}), g.scalar(0.25)}));
}

void normalise_batch(GraphMaker& g) {
  g.offer(activation(g, batch_normalised(g, g.pick([&](Id id) { return g.rank(id) >= 2 && g.known(id, 1); }))));
}

Id layer_normalised(GraphMaker& g, Id x) {
  const Shape width{g.size(x, g.rank(x) - 1)};
  const Id scale = g.weights(width, 0.5, 1.5), shift = g.weights(width);
  if (g.chance(0.4)) return g.op("LayerNormalization", {x, scale, shift}, {{"axis", std::int64_t{-1}}});
  const Id last = g.integers({-1});
  if (g.chance(0.25)) {  // by the root of the mean square alone
    const Id square = g.op("ReduceMean", {g.op("Pow", {x, g.scalar(2)}), last});
    return g.op("Mul", {g.op("Div", {x, g.op("Sqrt", {g.op("Add", {square, g.scalar(1e-3)})})}), scale});
  }
  const Id centred = g.op("Sub", {x, g.op("ReduceMean", {x, last})});
  const Id square = g.chance(0.5) ? g.op("Pow", {centred, g.scalar(2)}) : g.op("Mul", {centred, centred});
  const Id deviation = g.op("Sqrt", {g.op("Add", {g.op("ReduceMean", {square, last}), g.scalar(1e-3)})});
  return g.op("Add", {g.op("Mul", {g.op("Div", {centred, deviation}), scale}), shift});
}

void normalise_layer(GraphMaker& g) {
  Id x =
      g.pick([&](Id id) { return g.rank(id) >= 2 && g.known(id, g.rank(id) - 1) && g.size(id, g.rank(id) - 1) > 2; });
  if (g.chance(0.4)) x = g.op("Add", {x, g.op("Tanh", {x})});
  g.offer(layer_normalised(g, x));
}

// Two rows of numbers, at times stored as bytes: by one scale, one a row or one a column.
Id table_of_two(GraphMaker& g, std::int64_t width) {
  if (g.chance(0.6)) return g.weights({2, width});
  const Id bytes = g.whole_weights(g.chance(0.5) ? DType::i8 : DType::u8, {2, width}, 0, 100);
  const bool by_row = g.chance(0.5);
  if (g.chance(0.4))
    return g.op("DequantizeLinear", {bytes, g.weights({by_row ? 2 : width}, 0.01, 0.02)},
                {{"axis", std::int64_t{by_row ? 0 : 1}}});
  const Id scales = g.chance(0.3) ? g.scalar(0.015)
                    : by_row      ? g.weights({2, 1}, 0.01, 0.02)
                                  : g.weights({width}, 0.01, 0.02);
  return g.op("Mul", {g.op("Cast", {bytes}, {{"to", std::int64_t{1}}}), scales});
}

// Rows that what is above or below zero names, and rows of their places, as the first layer of a transformer.
void embed(GraphMaker& g) {
  const Id input = g.input_of_floats();
  g.need(g.rank(input) == 2 && g.known(input, 1));
  const std::int64_t length = g.size(input, 1), width = g.number(3, 9);
  const auto rows = [&](double above) {
    g.set_exact(true);
    const Id ids = g.op("Cast", {g.op("Greater", {input, g.scalar(above)})}, {{"to", std::int64_t{7}}});
    const bool one_hot = g.chance(0.3);
    const Id hot = one_hot ? g.op("OneHot", {ids, g.builder().scalar(2, DType::i64),
                                             g.builder().constant(Tensor::from<float>({2}, {0, 1}))})
                           : Id();
    g.set_exact(false);
    const Id table = table_of_two(g, width);
    const Id found = one_hot ? g.op("MatMul", {hot, table}) : g.op("Gather", {table, ids});
    return g.chance(0.3) ? g.op("Tanh", {found}) : found;
  };
  Id sum = rows(0);
  if (g.chance(0.5)) sum = g.op("Add", {sum, rows(0.3)});
  if (g.chance(0.8)) sum = g.op("Add", {sum, g.weights({length, width})});
  if (g.chance(0.3)) g.offer(sum);
  g.offer(layer_normalised(g, sum));
}

void normalise_channels(GraphMaker& g) {
  const Id x = pick_map(g);
  const Shape channels{g.size(x, 1)};
  const bool groups = g.size(x, 1) % 2 == 0 && g.chance(0.5);
  const std::vector<Id> inputs{x, g.weights(channels, 0.5, 1.5), g.weights(channels)};
  if (groups) g.offer(g.op("GroupNormalization", inputs, {{"num_groups", std::int64_t{2}}, {"epsilon", 1e-3f}}));
  else g.offer(g.op("InstanceNormalization", inputs, {{"epsilon", 1e-3f}}));
}

// GroupNormalization as exporters write it: groups as channels of InstanceNormalization, then a scale and a shift a
// channel.
void normalise_groups(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return is_map(g, id) && g.rank(id) == 4 && g.size(id, 1) % 2 == 0; });
  const std::int64_t channels = g.size(x, 1), groups = channels % 4 == 0 && g.chance(0.5) ? 4 : 2;
  const Id ones = g.weights({groups}, 1, 1), zeros = g.weights({groups}, 0, 0);
  Id y = g.op("Reshape", {x, g.integers({0, groups, -1})});
  y = g.op("InstanceNormalization", {y, ones, zeros}, {{"epsilon", 1e-3f}});
  y = g.op("Reshape", {y, g.chance(0.5) ? g.op("Shape", {x}) : g.integers({0, channels, g.size(x, 2), g.size(x, 3)})});
  g.offer(g.op("Add", {g.op("Mul", {y, g.weights({channels, 1, 1}, 0.5, 1.5)}), g.weights({channels, 1, 1})}));
}

// InstanceNormalization of data with the channels last, as Keras writes it.
void normalise_last_channels(GraphMaker& g) {
  const Id x =
      g.pick([&](Id id) { return g.rank(id) == 4 && g.all_known(id, 1) && g.size(id, 1) * g.size(id, 2) > 2; });
  const Id axes = g.integers({1, 2}), mean = g.op("ReduceMean", {x, axes}), centred = g.op("Sub", {x, mean});
  const Id variance = g.op("ReduceMean", {g.op("Mul", {centred, centred}), axes});
  Id factor = g.op("Reciprocal", {g.op("Sqrt", {g.op("Add", {variance, g.scalar(1e-3)})})});
  if (g.chance(0.6)) factor = g.op("Mul", {factor, g.weights({g.size(x, 3)}, 0.5, 1.5)});
  Id rest = g.op("Mul", {g.op("Neg", {mean}), factor});
  if (g.chance(0.6)) rest = g.op("Add", {rest, g.weights({g.size(x, 3)})});
  g.offer(g.op("Add", {g.op("Mul", {x, factor}), rest}));
}

void softmax(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 1; });
  const std::int64_t axis = g.chance(0.6) ? -1 : g.number(0, g.rank(x) - 1);
  if (g.chance(0.75)) return g.offer(g.op(g.chance(0.8) ? "Softmax" : "LogSoftmax", {x}, {{"axis", axis}}));
  const Id power = g.op("Exp", {g.op("Sub", {x, g.op("ReduceMax", {x, g.integers({axis})})})});
  g.offer(g.op("Div", {power, g.op("ReduceSum", {power, g.integers({axis})})}));
}

void reduce(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 1; });
  Integers axes{g.number(0, g.rank(x) - 1)};
  if (g.rank(x) == 4 && g.chance(0.5)) axes = g.chance(0.7) ? Integers{2, 3} : Integers{-1, -2};
  const std::string op =
      g.one_of(Names{"ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare"});
  const std::int64_t keeps = g.number(0, 1);
  const Id y = g.op(op, {x, g.integers(axes)}, {{"keepdims", keeps}});
  g.offer(g.rank(y) > 0 && g.chance(0.3)
              ? g.op(op, {y, g.integers({g.number(0, g.rank(y) - 1)})}, {{"keepdims", keeps}})
              : y);
}

// Softmax(Q Kᵀ / √d + mask) V with heads, as exporters write it.
void attention(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 3 && g.all_known(id, 1); });
  const std::int64_t length = g.size(x, 1), width = g.size(x, 2), heads = g.one_of(Integers{1, 2}),
                     depth = g.one_of(Integers{2, 4});
  const double bound = std::sqrt(3.0 / static_cast<double>(width));
  const auto head_form = [&](const Integers& perm) {
    Id y = g.op("MatMul", {x, g.weights({width, heads * depth}, -bound, bound)});
    if (g.chance(0.5)) y = g.op("Add", {y, g.weights({heads * depth})});
    return g.op("Transpose", {g.op("Reshape", {y, g.integers({0, length, heads, depth})})}, {{"perm", perm}});
  };
  const Id q = head_form({0, 2, 1, 3}), k = head_form({0, 2, 3, 1}), v = head_form({0, 2, 1, 3});
  const double root = std::sqrt(static_cast<double>(depth));
  Id scores = g.op("MatMul", {q, k});
  scores = g.chance(0.5) ? g.op("Div", {scores, g.scalar(root)}) : g.op("Mul", {scores, g.scalar(1 / root)});
  if (g.chance(0.4)) scores = g.op("Add", {scores, g.weights({1, 1, length, length}, -3, 0)});
  const Id y = g.op("Transpose", {g.op("MatMul", {g.op("Softmax", {scores}), v})}, {{"perm", Integers{0, 2, 1, 3}}});
  g.offer(g.op("Reshape", {y, g.integers({0, length, heads * depth})}));
}

// x + f(x), with f some layers on x's own shape.
void residual(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 4 && g.all_known(id, 1); });
  const std::int64_t channels = g.size(x, 1);
  const auto layer = [&](Id in) {
    return g.op("Conv", {in, g.weights({channels, channels, 3, 3}, -0.3, 0.3)},
                {{"pads", Integers{1, 1, 1, 1}}, {"kernel_shape", Integers{3, 3}}});
  };
  const Id y = batch_normalised(g, layer(g.op("Relu", {batch_normalised(g, layer(x))})));
  g.offer(g.op("Relu", {g.chance(0.5) ? g.op("Add", {y, x}) : g.op("Add", {x, y})}));
}

}  // namespace

std::vector<Recipe> layer_recipes() {
  return {conv,
          conv,
          conv,
          conv,
          scaled_layer,
          conv_transpose,
          pool,
          pool,
          global_pool,
          excite,
          matmul,
          matmul,
          matmul,
          gemm,
          gemm,
          product,
          normalise_batch,
          normalise_layer,
          normalise_layer,
          normalise_channels,
          normalise_groups,
          normalise_last_channels,
          padded_window,
          softmax,
          reduce,
          reduce};
}

std::vector<Recipe> structure_recipes() {
  return {attention, residual, excite, global_pool, gemm, embed};
}

}  // namespace tessera::test
