#include "ops/rows/reduction.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kReduceTypes = types::floats | TypeSet{DType::i32, DType::i64, DType::u32, DType::u64};
constexpr TypeSet kExtremeTypes = kReduceTypes | TypeSet{DType::i8, DType::u8, DType::boolean};

// Infers what is certain while the axes are not known: the rank, if their number tells it.
void infer_unknown_axes(InferContext& context, const ir::Dims& dims, bool keepdims) {
  const std::int64_t rank = static_cast<std::int64_t>(dims.size());
  const std::optional<std::int64_t> count = known_length(context, 1);
  if (keepdims) {
    context.set_output(0, context.dtype(0), ir::Dims(dims.size()));
  } else if (count && *count > 0) {
    context.check(*count <= rank, "{} axes of a tensor of rank {}", *count, rank);
    context.set_output(0, context.dtype(0), ir::Dims(static_cast<std::size_t>(rank - *count)));
  } else {
    context.set_output_unknown_rank(0, context.dtype(0));
  }
}

void infer_reduction(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  const bool keepdims = context.integer("keepdims") != 0, noop = context.integer("noop_with_empty_axes") != 0;
  std::optional<std::vector<std::int64_t>> axes = std::vector<std::int64_t>{};
  if (context.has_input(1)) {
    axes = context.constant_integers(1);
    if (!axes && known_length(context, 1) == 0) axes.emplace();
  }
  if (dims == nullptr) {
    if (!keepdims && axes && axes->empty() && !noop) context.set_output(0, context.dtype(0), ir::Dims{});
    else context.set_output_unknown_rank(0, context.dtype(0));
  } else if (!axes) {
    infer_unknown_axes(context, *dims, keepdims);
  } else {
    const auto reduced = reduction_axes(*axes, static_cast<std::int64_t>(dims->size()), noop);
    context.set_output(0, context.dtype(0), reduced_dims(*dims, reduced, keepdims));
  }
}

// A reduction that is differentiated, with gradient and result as if the axes were kept.
struct Reduced {
  Term x, y, g;
};

// The term with the axes that the reduction removed.
Term restored(GradientContext& c, Term term) {
  if (c.integer("keepdims") != 0) return term;
  std::int64_t count = 0;
  if (c.has_input(1)) {
    const std::optional<Shape> shape = c.builder().type(c.input(1).id()).shape();
    require(shape.has_value(), ErrorKind::unsupported, "the number of its axes is not known");
    count = (*shape)[0];
  }
  if (count > 0) return term.combine("Unsqueeze", {c.input(1)});
  if (c.integer("noop_with_empty_axes") != 0) return term;
  return term.unsqueeze(all_axes(c.input(0).rank()));
}

Reduced reduced(GradientContext& c) {
  return {c.input(0), restored(c, c.output()), restored(c, c.gradient())};
}

// The sum over the same axes, which are kept.
Term same_sum(GradientContext& c, Term term) {
  std::vector<Term> axes;
  if (c.has_input(1)) axes.push_back(c.input(1));
  return term.combine("ReduceSum", axes, {{"noop_with_empty_axes", c.integer("noop_with_empty_axes")}});
}

void sum_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, r.g.expand_like(r.x));
}

void reduction_mean_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, (r.g * (r.y.count() / r.x.count())).expand_like(r.x));
}

// Equal extreme elements share the gradient.
void reduction_extreme_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  const Term taken = r.x.equals(r.y).cast(r.g.dtype());
  c.set(0, taken * (r.g / same_sum(c, taken)));
}

void l1_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, r.g * r.x.apply("Sign"));
}

// x / ‖x‖, and 0 at 0.
void l2_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, r.y.equals(r.y.number(0)).choose(r.g.number(0), r.g * r.x / r.y));
}

void log_sum_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, (r.g * (-r.y).apply("Exp")).expand_like(r.x));
}

void log_sum_exp_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, r.g * (r.x - r.y).apply("Exp"));
}

void sum_square_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  c.set(0, r.g * r.x * 2);
}

// The product of the other elements: y / x where no element is zero, and for the only zero among them the product of
// the rest.
void prod_gradient(GradientContext& c) {
  const Reduced r = reduced(c);
  const Term zero = r.x.equals(r.x.number(0)), rest = zero.choose(r.x.number(1), r.x);
  const Term zeros = same_sum(c, zero.cast(r.g.dtype()));
  std::vector<Term> axes;
  if (c.has_input(1)) axes.push_back(c.input(1));
  const Term product =
      r.g * rest.combine("ReduceProd", axes, {{"noop_with_empty_axes", c.integer("noop_with_empty_axes")}});
  const Term none = zeros.equals(zeros.number(0)), one = zeros.equals(zeros.number(1));
  c.set(0, zero.choose(one.choose(product, 0), none.choose(product, 0) / rest).of_shape(r.x));
}

OpDef reduction(std::string_view name, int since, TypeSet types, double (*operations)(const NodeView&),
                GradientFunction gradient = nullptr, Traits traits = {Trait::reduction}) {
  return {.name = name,
          .since = since,
          .inputs = {{"data", types, "T"}, {"axes", types::i64, "", optional}},
          .outputs = {{"reduced", types, "T"}},
          .attributes = {{"keepdims", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                         {"noop_with_empty_axes", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
          .infer = infer_reduction,
          .operations = operations,
          .gradient = gradient,
          .traits = traits};
}

}  // namespace

std::vector<std::int64_t> reduction_axes(std::span<const std::int64_t> given, std::int64_t rank, bool noop_when_empty) {
  if (given.empty()) return noop_when_empty ? std::vector<std::int64_t>{} : all_axes(rank);
  std::vector<std::int64_t> axes = normalise_axes(given, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

ir::Dims reduced_dims(const ir::Dims& dims, std::span<const std::int64_t> axes, bool keepdims) {
  ir::Dims result;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (!reduced) result.push_back(dims[i]);
    else if (keepdims) result.emplace_back(1);
  }
  return result;
}

const OpDef reduce_l1 = reduction("ReduceL1", 18, kReduceTypes, operations_per_input<2>, l1_gradient,
                                  {Trait::reduction, Trait::non_negative});
const OpDef reduce_l2 = reduction("ReduceL2", 18, kReduceTypes, operations_per_input<2>, l2_gradient,
                                  {Trait::reduction, Trait::non_negative});
const OpDef reduce_log_sum = reduction("ReduceLogSum", 18, kReduceTypes, operations_per_input<1>, log_sum_gradient);
const OpDef reduce_log_sum_exp =
    reduction("ReduceLogSumExp", 18, kReduceTypes, operations_per_input<10>, log_sum_exp_gradient);
const OpDef reduce_max = reduction("ReduceMax", 20, kExtremeTypes, operations_per_input<1>, reduction_extreme_gradient,
                                   {Trait::reduction, Trait::nests});
const OpDef reduce_mean = reduction("ReduceMean", 18, kReduceTypes, operations_per_input<1>, reduction_mean_gradient,
                                    {Trait::reduction, Trait::nests});
const OpDef reduce_min = reduction("ReduceMin", 20, kExtremeTypes, operations_per_input<1>, reduction_extreme_gradient,
                                   {Trait::reduction, Trait::nests});
const OpDef reduce_prod =
    reduction("ReduceProd", 18, kReduceTypes, operations_per_input<1>, prod_gradient, {Trait::reduction, Trait::nests});
const OpDef reduce_sum =
    reduction("ReduceSum", 13, kReduceTypes, operations_per_input<1>, sum_gradient, {Trait::reduction, Trait::nests});
const OpDef reduce_sum_square = reduction("ReduceSumSquare", 18, kReduceTypes, operations_per_input<2>,
                                          sum_square_gradient, {Trait::reduction, Trait::non_negative});

}  // namespace tessera::ops
