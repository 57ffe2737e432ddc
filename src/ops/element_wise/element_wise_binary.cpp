#include "ops/element_wise/element_wise_binary.h"

#include "ops/core/gradient.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

OpDef binary_element_wise(std::string_view name, int since, TypeSet types, GradientFunction gradient = nullptr,
                          Traits traits = {}) {
  return {.name = name,
          .since = since,
          .inputs = {{"A", types, "T"}, {"B", types, "T"}},
          .outputs = {{"C", types, "T"}},
          .infer = infer_broadcast,
          .operations = operations_per_output<1>,
          .gradient = gradient,
          .element_wise = ElementWise::broadcasting,
          .traits = traits};
}

// One operation for each operand after the first.
double variadic_operations(const NodeView& view) {
  return static_cast<double>(view.output(0).elements()) * static_cast<double>(view.input_count() - 1);
}

OpDef variadic_of(std::string_view name, TypeSet types, GradientFunction gradient) {
  return {.name = name,
          .since = 13,
          .inputs = {{"data_0", types, "T", variadic}},
          .outputs = {{"result", types, "T"}},
          .infer = infer_broadcast,
          .operations = variadic_operations,
          .gradient = gradient,
          .element_wise = ElementWise::broadcasting,
          .traits = {Trait::keeps_one_operand}};
}

void infer_mod(InferContext& context) {
  context.check(!is_float(context.dtype(0)) || context.integer("fmod") == 1,
                "fmod is {} with elements of type {}, expected 1 for floats", context.integer("fmod"),
                name_of(context.dtype(0)));
  infer_broadcast(context);
}

void infer_bit_shift(InferContext& context) {
  const std::string& direction = context.text("direction");
  context.check(direction == "LEFT" || direction == "RIGHT", "direction is '{}', expected LEFT or RIGHT", direction);
  infer_broadcast(context);
}

// The slope broadcasts to x, whose shape the result has.
void infer_p_relu(InferContext& context) {
  const ir::Dims *x = context.dims(0), *slope = context.dims(1);
  if (x != nullptr && slope != nullptr) {
    const ir::Dims both = broadcast_dims(context, *x, *slope);
    bool fits = both.size() == x->size();
    for (std::size_t i = 0; fits && i < both.size(); ++i) fits = both[i].may_equal((*x)[i]);
    context.check(fits, "slope {} does not broadcast to {}", text_of(*slope), text_of(*x));
  }
  infer_same_as_input(context);
}

void infer_element_wise_binary_where(InferContext& context) {
  infer_broadcast(context);
  if (!context.wants_output(0)) return;
  ir::ValueType type = *context.results()[0];
  type.dtype = context.dtype(1);
  context.set_output(0, std::move(type));
}

void add_gradient(GradientContext& c) {
  for (std::size_t i = 0; i < c.input_count(); ++i) c.set(i, c.gradient());
}

void sub_gradient(GradientContext& c) {
  c.set(0, c.gradient());
  if (c.wants(1)) c.set(1, -c.gradient());
}

void mul_gradient(GradientContext& c) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.wants(i)) c.set(i, c.gradient() * c.input(1 - i));
  }
}

void div_gradient(GradientContext& c) {
  const Term quotient = c.gradient() / c.input(1);
  c.set(0, quotient);
  if (c.wants(1)) c.set(1, -quotient * c.output());
}

// Equal extreme operands share the gradient.
void element_wise_binary_extreme_gradient(GradientContext& c) {
  std::vector<Term> taken;
  for (std::size_t i = 0; i < c.input_count(); ++i)
    taken.push_back(c.input(i).equals(c.output()).cast(c.output().dtype()));
  Term count = taken[0];
  for (std::size_t i = 1; i < taken.size(); ++i) count = count + taken[i];
  const Term share = c.gradient() / count;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (c.wants(i)) c.set(i, share * taken[i]);
  }
}

void element_wise_binary_mean_gradient(GradientContext& c) {
  const Term share = c.gradient() / static_cast<double>(c.input_count());
  for (std::size_t i = 0; i < c.input_count(); ++i) c.set(i, share);
}

// y x^(y - 1) and x^y log x; both are 0 where they would multiply zero and infinity.
void pow_gradient(GradientContext& c) {
  const Term x = c.input(0), exponent = c.input(1).cast(x.dtype());
  if (c.wants(0)) {
    const Term slope = exponent * x.combine("Pow", {exponent - 1});
    c.set(0, exponent.equals(exponent.number(0)).choose(c.gradient().number(0), c.gradient() * slope));
  }
  if (c.wants(1)) {
    const Term slope = c.gradient() * c.output() * x.apply("Log");
    c.set(1, x.equals(x.number(0)).choose(slope.number(0), slope).cast(c.input(1).dtype()));
  }
}

// a - b trunc(a / b)
void mod_gradient(GradientContext& c) {
  c.set(0, c.gradient());
  if (!c.wants(1)) return;
  const Term quotient = c.input(0) / c.input(1);
  c.set(1, -c.gradient() * quotient.apply("Sign") * quotient.apply("Abs").apply("Floor"));
}

void p_relu_gradient(GradientContext& c) {
  const Term g = c.gradient(), negative = c.input(0) < 0;
  if (c.wants(0)) c.set(0, negative.choose(g * c.input(1), g));
  if (c.wants(1)) c.set(1, negative.choose(g * c.input(0), 0));
}

void where_gradient(GradientContext& c) {
  const Term g = c.gradient();
  if (c.wants(1)) c.set(1, c.input(0).choose(g, 0));
  if (c.wants(2)) c.set(2, c.input(0).choose(g.number(0), g));
}

constexpr TypeSet kPowBase{DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr TypeSet kPReluTypes = types::floats | TypeSet{DType::i32, DType::i64, DType::u32, DType::u64};
constexpr TypeSet kWhereTypes = types::numbers | types::boolean | types::text | types::complex;

}  // namespace

const OpDef add = binary_element_wise("Add", 14, types::numbers, add_gradient, {Trait::commutative});
const OpDef sub = binary_element_wise("Sub", 14, types::numbers, sub_gradient);
const OpDef mul = binary_element_wise("Mul", 14, types::numbers, mul_gradient, {Trait::commutative});
// Division of integers truncates towards zero; a divisor of zero is an Error(failed) of the run.
const OpDef div = binary_element_wise("Div", 14, types::numbers, div_gradient);
const OpDef bitwise_and = binary_element_wise("BitwiseAnd", 18, types::integers, nullptr, {Trait::commutative});
const OpDef bitwise_or = binary_element_wise("BitwiseOr", 18, types::integers, nullptr, {Trait::commutative});
const OpDef bitwise_xor = binary_element_wise("BitwiseXor", 18, types::integers, nullptr, {Trait::commutative});
const OpDef max = variadic_of("Max", types::numbers, element_wise_binary_extreme_gradient);
const OpDef min = variadic_of("Min", types::numbers, element_wise_binary_extreme_gradient);
const OpDef sum = variadic_of("Sum", types::floats, add_gradient);
const OpDef mean = variadic_of("Mean", types::floats, element_wise_binary_mean_gradient);

// x ^ y, in the type of x.
const OpDef pow{
    .name = "Pow",
    .since = 15,
    .inputs = {{"X", kPowBase, "T"}, {"Y", types::numbers, "T1"}},
    .outputs = {{"Z", kPowBase, "T"}},
    .infer = infer_broadcast,
    .operations = operations_per_output<10>,
    .gradient = pow_gradient,
    .element_wise = ElementWise::broadcasting,
};

// The remainder has the divisor's sign, or with fmod = 1 the dividend's (as C's fmod).
const OpDef mod{
    .name = "Mod",
    .since = 13,
    .inputs = {{"A", types::numbers, "T"}, {"B", types::numbers, "T"}},
    .outputs = {{"C", types::numbers, "T"}},
    .attributes = {{"fmod", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_mod,
    .operations = operations_per_output<3>,
    .gradient = mod_gradient,
    .element_wise = ElementWise::broadcasting,
    .traits = {Trait::discontinuous},
};

// Bits shifted out are lost; shifting by the width or more gives 0.
const OpDef bit_shift{
    .name = "BitShift",
    .since = 11,
    .inputs = {{"X", types::unsigned_integers, "T"}, {"Y", types::unsigned_integers, "T"}},
    .outputs = {{"Z", types::unsigned_integers, "T"}},
    .attributes = {{"direction", ir::AttributeKind::text, std::nullopt, true}},
    .infer = infer_bit_shift,
    .operations = operations_per_output<1>,
    .element_wise = ElementWise::broadcasting,
};

// x < 0 ? slope x : x
const OpDef p_relu{
    .name = "PRelu",
    .since = 16,
    .inputs = {{"X", kPReluTypes, "T"}, {"slope", kPReluTypes, "T"}},
    .outputs = {{"Y", kPReluTypes, "T"}},
    .infer = infer_p_relu,
    .operations = operations_per_output<2>,
    .gradient = p_relu_gradient,
    .element_wise = ElementWise::to_first,
    .traits = {Trait::homogeneous},
};

// condition ? x : y
const OpDef where{
    .name = "Where",
    .since = 16,
    .inputs = {{"condition", types::boolean, "B"}, {"X", kWhereTypes, "T"}, {"Y", kWhereTypes, "T"}},
    .outputs = {{"output", kWhereTypes, "T"}},
    .infer = infer_element_wise_binary_where,
    .gradient = where_gradient,
    .element_wise = ElementWise::broadcasting,
    .traits = {Trait::moves},
};

}  // namespace tessera::ops
