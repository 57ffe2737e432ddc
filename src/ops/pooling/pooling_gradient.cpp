#include "ops/pooling/pooling_gradient.h"

#include "base/error.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/pooling/pooling.h"

namespace tessera::ops {
namespace {

void infer_pooling_gradient(InferContext& context) {
  const std::optional<std::vector<std::int64_t>> shape = context.constant_integers(1);
  const ir::Dims* given = context.dims(0);
  if (!shape) {
    const std::optional<std::int64_t> rank = known_length(context, 1);
    if (!rank && given == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
    ir::Dims dims = rank ? unknown_dims(*rank) : ir::Dims(given->size());
    context.check(dims.size() >= 3, "shape has {} entries, expected [N, C, spatial...]", dims.size());
    context.check(given == nullptr || given->size() == dims.size(), "'dY' has {} dimensions, but shape has {} entries",
                  given != nullptr ? given->size() : 0, dims.size());
    if (given != nullptr) std::copy_n(given->begin(), 2, dims.begin());
    return context.set_output(0, context.dtype(0), std::move(dims));
  }
  for (const std::int64_t size : *shape) context.check(size >= 0, "shape has the entry {}", size);
  const ir::Dims x = ir::to_dims(*shape), y = pooled_dims(context, x);
  bool fits = given == nullptr || given->size() == y.size();
  for (std::size_t i = 0; fits && given != nullptr && i < y.size(); ++i) fits = (*given)[i].may_equal(y[i]);
  context.check(fits, "'dY' has shape {}, but pooling {} gives {}", given != nullptr ? to_string(*given) : "",
                to_string(x), to_string(y));
  context.set_output(0, context.dtype(0), x);
}

std::vector<AttributeSpec> gradient_attributes() {
  std::vector<AttributeSpec> specs = average_pooling_attributes();
  specs.push_back({"divide", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})});
  return specs;
}

Term back(GradientContext& c, Term gradient, std::int64_t divide) {
  ir::Attributes attributes = c.node().attributes;
  attributes.erase("p");
  attributes["divide"] = divide;
  return gradient.combine("tessera::AveragePoolGradient", {c.input(0).shape()}, std::move(attributes))
      .of_shape(c.input(0));
}

// sign(x) |x|^(p - 1), the inner part of the gradient of (Σ |x|^p)^(1/p).
Term power(Term x, std::int64_t p) {
  if (p == 1) return x.apply("Sign");
  if (p == 2) return x;
  return x.apply("Sign") * x.apply("Abs").combine("Pow", {x.number(static_cast<double>(p - 1))});
}

// g y^(1 - p), and 0 where y is.
Term outer_power(Term g, Term y, std::int64_t p) {
  if (p == 1) return g;
  const Term zero = y.equals(y.number(0)), base = zero.choose(y.number(1), y);
  return zero.choose(g.number(0), g * base.combine("Pow", {y.number(static_cast<double>(1 - p))}));
}

}  // namespace

std::int64_t averaged_taps(const WindowAxis& axis, std::int64_t o, bool include_padding) {
  return include_padding ? axis.taps_within(o, -axis.pad_begin, axis.input + axis.pad_end)
                         : axis.taps_within(o, 0, axis.input);
}

void average_gradient(GradientContext& c) {
  c.set(0, back(c, c.gradient(), 1));
}

void lp_pool_gradient(GradientContext& c) {
  const std::int64_t p = c.integer("p");
  c.set(0, back(c, outer_power(c.gradient(), c.output(), p), 0) * power(c.input(0), p));
}

void global_lp_gradient(GradientContext& c) {
  const std::int64_t p = c.integer("p");
  c.set(0, outer_power(c.gradient(), c.output(), p) * power(c.input(0), p));
}

void max_unpool_gradient(GradientContext& c) {
  require(!c.has_input(2), ErrorKind::unsupported, "it has an output_shape");
  const auto flat = [](Term term) { return term.combine("Reshape", {term.integers({-1})}); };
  const Term taken = flat(c.gradient()).combine("Gather", {flat(c.input(1))});
  c.set(0, taken.reshape_like(c.input(0)));
}

// Adds each element of dY to all elements of its window, after dividing it by what AveragePool divides the window's sum
// by; with `divide` 0 it is not divided, which is the transpose of a sum over the window. `shape` is that of
// AveragePool's X, [N, C, spatial...], and dY has the shape of its Y.
const OpDef average_pool_gradient{
    .name = "tessera::AveragePoolGradient",
    .since = 1,
    .inputs = {{"dY", types::floats, "T"}, {"shape", types::i64}},
    .outputs = {{"dX", types::floats, "T"}},
    .attributes = gradient_attributes(),
    .infer = infer_pooling_gradient,
    .operations =
        [](const NodeView& view) {
          double taps = 1;
          for (const std::int64_t size : view.integers("kernel_shape")) taps *= static_cast<double>(size);
          return taps * static_cast<double>(view.input(0).elements());
        },
};

}  // namespace tessera::ops
