#include "ops/rows/cumulative.h"

#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kCumulativeTypes = types::floats | TypeSet{DType::i32, DType::i64, DType::u32, DType::u64};

void infer_cumulative(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (const Tensor* axis = context.constant(1); axis != nullptr && dims != nullptr) {
    normalise_axis(single_integer(*axis, "axis"), static_cast<std::int64_t>(dims->size()));
  }
  infer_same_as_input(context);
}

// The cumulative sum in the opposite direction.
Term sum_back(GradientContext& c, Term term) {
  return term.combine("CumSum", {c.input(1)},
                      {{"exclusive", c.integer("exclusive")}, {"reverse", std::int64_t{c.integer("reverse") == 0}}});
}

void cum_sum_gradient(GradientContext& c) {
  c.set(0, sum_back(c, c.gradient()));
}

// The gradient with respect to x_k is the sum of g_i y_i / x_k over the products y_i that contain x_k. In a line with
// zeros, all products from the first zero on are zero; the gradient with respect to that element takes the products of
// the other elements, `without`. Elements after it have a zero gradient.
void cum_prod_gradient(GradientContext& c) {
  const Term x = c.input(0), g = c.gradient(), zero = x.equals(x.number(0)), one = x.number(1);
  const Term zeros = zero.cast(x.dtype()).combine("CumSum", {c.input(1)}, {{"reverse", c.integer("reverse")}});
  const Term first = zero & zeros.equals(one);
  const Term without = first.choose(one, x).combine("CumProd", {c.input(1)}, c.node().attributes);
  const Term others = sum_back(c, g * c.output()) / zero.choose(one, x);
  c.set(0, first.choose(sum_back(c, g * without), zero.choose(x.number(0), others)).of_shape(x));
}

OpDef cumulative(std::string_view name, int since, GradientFunction gradient = nullptr) {
  return {.name = name,
          .since = since,
          .inputs = {{"x", kCumulativeTypes, "T"}, {"axis", types::index, "T2"}},
          .outputs = {{"y", kCumulativeTypes, "T"}},
          .attributes = {{"exclusive", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                         {"reverse", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
          .infer = infer_cumulative,
          .operations = operations_per_output<1>,
          .gradient = gradient};
}

}  // namespace

// y_i = x_0 + … + x_i; exclusive leaves x_i out, reverse starts from the end.
const OpDef cum_sum = cumulative("CumSum", 14, cum_sum_gradient);
const OpDef cum_prod = cumulative("CumProd", 26, cum_prod_gradient);

}  // namespace tessera::ops
