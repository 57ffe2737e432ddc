// Recipes of random graphs: element by element.
#include "support/random_graph_maker.h"

namespace tessera::test {
namespace {

using Id = GraphMaker::Id;
using Names = std::vector<std::string>;

void bounded(GraphMaker& g) {
  g.offer(g.op(g.one_of(Names{"Relu",           "Sigmoid", "Tanh", "Abs",  "Neg",       "Erf",         "Softplus",
                              "Softsign",       "Elu",     "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish",
                              "Gelu",           "Mish",    "Sin",  "Cos",  "Identity",  "Dropout",     "Swish",
                              "ThresholdedRelu"}),
               {g.pick()}));
}

void positive(GraphMaker& g) {
  const Id x = g.op("Add", {g.op("Abs", {g.pick()}), g.scalar(0.5)});
  g.offer(g.op(g.one_of(Names{"Sqrt", "Log", "Reciprocal"}), {x}));
}

void exponential(GraphMaker& g) {
  g.offer(g.op("Exp", {g.pick([&](Id id) { return g.magnitude(id) < 3; })}));
}

void power(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.magnitude(id) < 8; });
  const double exponent = g.one_of(std::vector<double>{2, 3, 1, 0.5, -1});
  g.offer(g.op("Pow", {exponent == 0.5 || exponent == -1 ? g.op("Add", {g.op("Abs", {x}), g.scalar(0.5)}) : x,
                       g.scalar(exponent)}));
}

void with_constant(GraphMaker& g) {
  const Id x = g.pick();
  const std::string op = g.one_of(Names{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Add", "Mul"});
  const bool away_from_zero = op == "Div";
  const Id constant = g.chance(0.25)
                          ? g.scalar(g.one_of(std::vector<double>{0.5, 1, 2, 3, -1, 0.7071067811865476, 0.0}))
                          : g.broadcast_weights(x, away_from_zero ? 0.5 : -1, away_from_zero ? 2 : 1);
  const bool swap = op != "Div" && op != "PRelu" && g.chance(0.3);
  g.offer(g.op(op, swap ? std::vector<Id>{constant, x} : std::vector<Id>{x, constant}));
}

// Inference says whether two values broadcast; many do, since dimensions repeat.
void of_two(GraphMaker& g) {
  const Id a = g.pick(), b = g.pick();
  g.offer(g.op(g.one_of(Names{"Add", "Sub", "Mul", "Max", "Min", "Add", "Mul"}), {a, b}));
}

void quotient(GraphMaker& g) {
  const Id a = g.pick(), b = g.pick();
  g.offer(g.op("Div", {a, g.op("Add", {g.op("Sigmoid", {b}), g.scalar(0.5)})}));
}

void several(GraphMaker& g) {
  const Id a = g.pick(), b = g.broadcast_weights(a);
  g.offer(g.op(g.one_of(Names{"Sum", "Mean", "Max", "Min"}), {a, b, g.pick()}));
}

void clipped(GraphMaker& g) {
  const Id x = g.pick();
  const double low = g.one_of(std::vector<double>{0, -1, -0.5}), high = g.one_of(std::vector<double>{6, 1, 0.5});
  const int form = static_cast<int>(g.number(0, 2));
  g.offer(g.op("Clip", {x, form == 1 ? Id() : g.scalar(low), form == 2 ? Id() : g.scalar(high)}));
}

void spelt_out_activation(GraphMaker& g) {
  const Id x = g.pick();
  switch (g.number(0, 4)) {
    case 0:
      return g.offer(g.op("Mul", {x, g.op("Sigmoid", {x})}));
    case 1:
      return g.offer(g.op("Mul", {x, g.op("HardSigmoid", {x}, {{"alpha", 1.0f / 6}})}));
    case 2:
      return g.offer(g.op("Mul", {x, g.op("Tanh", {g.op("Softplus", {x})})}));
    case 3: {
      const Id one = g.op("Add", {g.op("Erf", {g.op("Div", {x, g.scalar(1.4142135623730951)})}), g.scalar(1)});
      return g.offer(g.chance(0.5) ? g.op("Mul", {g.op("Mul", {x, one}), g.scalar(0.5)})
                                   : g.op("Mul", {g.op("Mul", {x, g.scalar(0.5)}), one}));
    }
    default: {
      const Id cube = g.op("Mul", {g.op("Pow", {x, g.scalar(3)}), g.scalar(0.044715)});
      const Id inner = g.op("Mul", {g.op("Add", {x, cube}), g.scalar(0.7978845608028654)});
      return g.offer(g.op("Mul", {g.op("Mul", {x, g.scalar(0.5)}), g.op("Add", {g.op("Tanh", {inner}), g.scalar(1)})}));
    }
  }
}

// By a mask that is a constant, or a comparison of inputs, which rounding cannot turn.
void chosen(GraphMaker& g) {
  const Id x = g.pick();
  if (g.chance(0.5)) {
    Shape shape;
    for (std::int64_t axis = 0; axis < g.rank(x); ++axis)
      shape.push_back(g.known(x, axis) && g.chance(0.6) ? g.size(x, axis) : 1);
    const Id mask = g.whole_weights(DType::boolean, shape, 0, 1);
    return g.offer(g.op("Where", g.chance(0.5) ? std::vector<Id>{mask, x, g.scalar(g.chance(0.5) ? 0.0 : -1.0)}
                                               : std::vector<Id>{mask, g.broadcast_weights(x), x}));
  }
  const Id input = g.input_of_floats();
  g.set_exact(true);
  Id mask = g.op(g.one_of(Names{"Greater", "Less", "GreaterOrEqual"}), {input, g.scalar(g.chance(0.5) ? 0.0 : 0.3)});
  if (g.chance(0.3)) mask = g.op("Not", {mask});
  if (g.chance(0.4))
    mask = g.op(g.one_of(Names{"And", "Or", "Xor"}),
                {mask, g.op(g.one_of(Names{"Less", "LessOrEqual", "Equal"}), {input, g.op("Abs", {input})})});
  g.set_exact(false);
  g.offer(g.chance(0.3) ? g.op("Mul", {x, g.op("Cast", {mask}, {{"to", std::int64_t{1}}})})
                        : g.op("Where", {mask, x, input}));
}

void cast(GraphMaker& g) {
  const Id x = g.pick();
  const auto f32 = static_cast<std::int64_t>(DType::f32), f64 = static_cast<std::int64_t>(DType::f64);
  if (g.chance(0.3)) return g.offer(g.op("Cast", {x}, {{"to", f32}}));
  const Id wide = g.op("Cast", {x}, {{"to", f64}});
  g.offer(g.op("Cast", {g.chance(0.5) ? wide : g.op("Add", {wide, wide})}, {{"to", f32}}));
}

// A stretch of mixed precision.
void in_halves(GraphMaker& g) {
  const Id x = g.pick([&](Id id) { return g.magnitude(id) < 30; });
  const DType half = g.chance(0.5) ? DType::f16 : DType::bf16;
  const auto type = static_cast<std::int64_t>(half), f32 = static_cast<std::int64_t>(DType::f32);
  const Id weights = g.op("Cast", {g.broadcast_weights(x)}, {{"to", type}});
  Id y = g.op("Cast", {x}, {{"to", type}});
  y = g.op(g.one_of(Names{"Add", "Mul", "Sub"}), {y, weights});
  if (g.chance(0.3)) y = g.op("Cast", {g.op("Tanh", {g.op("Cast", {y}, {{"to", f32}})})}, {{"to", type}});
  if (g.rank(x) > 1 && g.chance(0.5)) y = g.op("Transpose", {y});
  if (g.rank(x) > 0 && g.chance(0.5)) y = g.op(g.one_of(Names{"Softmax", "Relu", "Sigmoid"}), {y});
  g.offer(g.op("Cast", {y}, {{"to", f32}}));
}

}  // namespace

std::vector<Recipe> element_wise_recipes() {
  return {bounded,
          bounded,
          bounded,
          positive,
          exponential,
          power,
          with_constant,
          with_constant,
          with_constant,
          of_two,
          of_two,
          of_two,
          quotient,
          several,
          clipped,
          spelt_out_activation,
          spelt_out_activation,
          chosen,
          cast,
          in_halves};
}

}  // namespace tessera::test
