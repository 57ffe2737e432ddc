#include "ops/rows/softmax.h"

#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

void infer_softmax(InferContext& context) {
  if (const ir::Dims* dims = context.dims(0))
    normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
  infer_same_as_input(context);
}

void softmax_gradient(GradientContext& c) {
  const Term g = c.gradient(), y = c.output();
  c.set(0, y * (g - (g * y).sum({c.integer("axis")})));
}

void log_softmax_gradient(GradientContext& c) {
  const Term g = c.gradient();
  c.set(0, g - c.output().apply("Exp") * g.sum({c.integer("axis")}));
}

OpDef along_axis(std::string_view name, double (*operations)(const NodeView&), GradientFunction gradient,
                 Traits traits) {
  return {.name = name,
          .since = 13,
          .inputs = {{"input", types::floats, "T"}},
          .outputs = {{"output", types::floats, "T"}},
          .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})}},
          .infer = infer_softmax,
          .operations = operations,
          .gradient = gradient,
          .traits = traits};
}

}  // namespace

// y_i = exp(x_i - max x) / sum_j exp(x_j - max x)
const OpDef softmax = along_axis("Softmax", operations_per_output<5>, softmax_gradient, {Trait::non_negative});
// y_i = x_i - max x - log sum_j exp(x_j - max x)
const OpDef log_softmax = along_axis("LogSoftmax", operations_per_output<5>, log_softmax_gradient, {});
// 1 at the first largest element, 0 elsewhere
const OpDef hardmax =
    along_axis("Hardmax", operations_per_output<1>, zero_gradient, {Trait::discontinuous, Trait::non_negative});

}  // namespace tessera::ops
