// Recipes of random graphs: moving data, and shapes that are computed.
#include <algorithm>
#include <numeric>

#include "support/random_graph_maker.h"

namespace tessera::test {
namespace {

using Id = GraphMaker::Id;
using Names = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

std::int64_t either_sign(GraphMaker& g, Id x, std::int64_t axis) {
  return g.chance(0.3) ? axis - g.rank(x) : axis;
}

void transpose(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 2; });
  Integers perm(static_cast<std::size_t>(g.rank(x)));
  std::iota(perm.begin(), perm.end(), 0);
  for (std::size_t i = perm.size() - 1; i > 0; --i)
    std::swap(perm[i], perm[static_cast<std::size_t>(g.number(0, static_cast<std::int64_t>(i)))]);
  g.offer(g.op("Transpose", {x}, {{"perm", perm}}));
}

void there_and_back(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 4; });
  const Id moved = g.op("Transpose", {x}, {{"perm", Integers{0, 2, 3, 1}}});
  g.offer(
      g.op("Transpose", {g.op(g.one_of(Names{"Relu", "Sigmoid", "Neg"}), {moved})}, {{"perm", Integers{0, 3, 1, 2}}}));
}

void concat(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 1; });
  const std::int64_t axis = g.number(0, g.rank(x) - 1);
  std::vector<Id> parts{x, g.pick([&](Id id) { return g.rank(id) == g.rank(x); })};
  if (g.chance(0.4)) parts.push_back(g.op("Relu", {x}));
  if (g.chance(0.3)) std::swap(parts[0], parts.back());
  g.offer(g.op("Concat", parts, {{"axis", either_sign(g, x, axis)}}));
}

void split(GraphMaker& g) {
  const Id x = g.pick();
  const std::int64_t axis = g.known_axis(x, 2), first = g.number(1, g.size(x, axis) - 1);
  const auto parts =
      g.op_multi("Split", {x, g.integers({first, g.size(x, axis) - first})}, 2, {{"axis", either_sign(g, x, axis)}});
  g.offer(parts[0]);
  g.offer(parts[1]);
}

void slice(GraphMaker& g) {
  const Id x = g.pick();
  const std::int64_t axis = g.known_axis(x, 2), size = g.size(x, axis), start = g.number(0, size - 1),
                     step = g.one_of(Integers{1, 1, 1, 2, 3, -1, -2});
  const std::int64_t end = step > 0 ? (g.chance(0.3) ? std::int64_t{1} << 40 : g.number(start + 1, size))
                                    : (g.chance(0.5) ? -size - 1 : -size + g.number(0, start) - 1);
  g.offer(g.op("Slice", {x, g.integers({g.chance(0.3) ? start - size : start}), g.integers({end}),
                         g.integers({either_sign(g, x, axis)}), g.integers({step})}));
}

// By Slices, as if there were no Split.
void take_apart(GraphMaker& g) {
  const Id x = g.pick();
  const std::int64_t axis = g.known_axis(x, 2), size = g.size(x, axis), middle = g.number(1, size - 1);
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    g.offer(g.op("Slice", {x, g.integers({begin}), g.integers({end}), g.integers({axis})}));
  };
  part(0, middle);
  part(middle, size);
}

void crop(GraphMaker& g) {
  const Id x =
      g.pick([&](Id id) { return g.rank(id) == 4 && g.all_known(id, 2) && g.size(id, 2) > 2 && g.size(id, 3) > 2; });
  g.offer(g.op("Slice", {x, g.integers({1, 0}), g.integers({g.size(x, 2) - 1, g.size(x, 3) - 1}), g.integers({2, 3})}));
}

void gather(GraphMaker& g) {
  const Id x = g.pick();
  const std::int64_t axis = g.known_axis(x), size = g.size(x, axis);
  const Shape shape = g.one_of(std::vector<Shape>{{}, {1}, {2}, {3}, {2, 2}});
  g.offer(
      g.op("Gather", {x, g.whole_weights(DType::i64, shape, -size, size - 1)}, {{"axis", either_sign(g, x, axis)}}));
}

void pad(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 2; });
  const auto rank = static_cast<std::size_t>(g.rank(x));
  Integers pads(2 * rank, 0);
  for (std::size_t axis = 1; axis < rank; ++axis) {
    if (!g.known(x, static_cast<std::int64_t>(axis)) || g.size(x, static_cast<std::int64_t>(axis)) < 3 ||
        (axis == 1 && g.chance(0.8)))
      continue;
    pads[axis] = g.number(0, 2);
    pads[rank + axis] = g.number(0, 2);
  }
  const std::string mode = g.one_of(Names{"constant", "constant", "constant", "reflect", "edge"});
  std::vector<Id> inputs{x, g.integers(pads)};
  if (mode == "constant" && g.chance(0.4)) inputs.push_back(g.scalar(g.chance(0.5) ? 0 : 0.5));
  g.offer(g.op("Pad", inputs, {{"mode", mode}}));
}

// To a shape of which one number is left to the operator, the batch taken over by 0 where it is a name.
void reshape(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 2 && g.all_known(id, 1); });
  const bool keeps_batch = !g.known(x, 0);
  Integers target;
  std::int64_t left = keeps_batch ? 1 : g.size(x, 0);
  for (std::int64_t axis = 1; axis < g.rank(x); ++axis) left *= g.size(x, axis);
  if (keeps_batch) target.push_back(0);
  for (const std::int64_t factor : {2, 3, 4}) {
    if (left % factor == 0 && g.chance(0.5)) {
      target.push_back(factor);
      left /= factor;
    }
  }
  target.push_back(g.chance(0.6) ? -1 : left);
  g.offer(g.op("Reshape", {x, g.integers(target)}));
}

// Reshape(x, Concat(Shape(x)'s first, numbers)), as exporters write it.
void computed_reshape(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) >= 2; });
  const Id shape = g.op("Shape", {x});
  Id first;
  if (g.chance(0.5))
    first = g.op("Unsqueeze", {g.op("Gather", {shape, g.builder().scalar(0, DType::i64)}, {{"axis", std::int64_t{0}}}),
                               g.integers({0})});
  else first = g.op("Slice", {shape, g.integers({0}), g.integers({1}), g.integers({0})});
  std::vector<Id> parts{first};
  if (g.rank(x) > 2 && g.chance(0.5))
    parts.push_back(g.op("Slice", {shape, g.integers({1}), g.integers({2}), g.integers({0})}));
  parts.push_back(g.integers({-1}));
  g.offer(g.op("Reshape", {x, g.op("Concat", parts, {{"axis", std::int64_t{0}}})}));
}

// Expand(weights, Shape(x)) and what takes it.
void computed_expand(GraphMaker& g) {
  const Id x = g.pick();
  g.offer(g.op(g.one_of(Names{"Add", "Mul"}), {x, g.op("Expand", {g.broadcast_weights(x), g.op("Shape", {x})})}));
}

void expand(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.all_known(id); });
  Integers target{g.number(1, 2)};
  for (std::int64_t axis = 0; axis < g.rank(x); ++axis)
    target.push_back(g.size(x, axis) == 1 ? g.number(1, 3) : g.size(x, axis));
  g.offer(g.op("Expand", {x, g.integers(target)}));
}

void tile(GraphMaker& g) {
  const Id x = g.pick();
  Integers repeats(static_cast<std::size_t>(g.rank(x)), 1);
  if (!repeats.empty()) repeats[static_cast<std::size_t>(g.known_axis(x))] = 2;
  g.offer(g.op("Tile", {x, g.integers(repeats)}));
}

void unsqueeze(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) <= 4; });
  g.offer(g.op("Unsqueeze", {x, g.integers({g.chance(0.4) ? -1 : g.number(0, g.rank(x))})}));
}

void squeeze(GraphMaker& g) {
  const Id x = g.pick(
      [&](Id id) { return std::ranges::any_of(g.dims(id), [](const ir::Dim& dim) { return dim == ir::Dim(1); }); });
  std::int64_t axis = 0;
  while (g.dims(x)[static_cast<std::size_t>(axis)] != ir::Dim(1)) ++axis;
  g.offer(g.op("Squeeze", {x, g.integers({either_sign(g, x, axis)})}));
}

void flatten(GraphMaker& g) {
  g.offer(g.op("Flatten", {g.pick([&](Id id) { return g.rank(id) >= 2; })}, {{"axis", std::int64_t{1}}}));
}

void space(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 4 && g.all_known(id, 1); });
  g.offer(g.op(g.size(x, 1) % 4 == 0 ? "DepthToSpace" : "SpaceToDepth", {x}, {{"blocksize", std::int64_t{2}}}));
}

void resize(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.rank(id) == 4; });
  const Id scales = g.builder().constant(Tensor::from<float>({4}, {1, 1, 2, g.chance(0.7) ? 2.0f : 1.5f}));
  const std::string mode = g.one_of(Names{"nearest", "nearest", "linear"});
  Id y = g.op("Resize", {x, Id(), scales},
              {{"mode", mode},
               {"coordinate_transformation_mode", g.one_of(Names{"asymmetric", "half_pixel", "align_corners"})},
               {"nearest_mode", g.one_of(Names{"floor", "round_prefer_floor"})}});
  if (g.known(y, 2) && g.chance(0.5)) y = g.op("Slice", {y, g.integers({2}), g.integers({4}), g.integers({2})});
  g.offer(y);
}

}  // namespace

std::vector<Recipe> movement_recipes() {
  return {transpose,
          transpose,
          there_and_back,
          concat,
          concat,
          split,
          slice,
          slice,
          take_apart,
          crop,
          gather,
          pad,
          reshape,
          reshape,
          computed_reshape,
          computed_reshape,
          computed_expand,
          expand,
          tile,
          unsqueeze,
          squeeze,
          flatten,
          space,
          resize};
}

}  // namespace tessera::test
