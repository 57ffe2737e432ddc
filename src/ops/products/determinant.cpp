#include "ops/products/determinant.h"

#include "ops/core/gradient.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_determinant(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(dims->size() >= 2 && dims->back().may_equal((*dims)[dims->size() - 2]),
                "shape {} does not hold square matrices", text_of(*dims));
  context.set_output(0, context.dtype(0), ir::Dims(dims->begin(), dims->end() - 2));
}

double determinant_operations(const NodeView& view) {
  const Shape& shape = view.input(0).shape;
  return 2.0 / 3.0 * static_cast<double>(view.input(0).elements()) *
         static_cast<double>(shape.empty() ? 0 : shape.back());
}

void infer_determinant_gradient(InferContext& context) {
  infer_determinant(context);
  const ir::Dims *x = context.dims(0), *given = context.dims(1);
  if (x != nullptr && given != nullptr) {
    bool fits = given->size() + 2 == x->size();
    for (std::size_t i = 0; fits && i < given->size(); ++i) fits = (*given)[i].may_equal((*x)[i]);
    context.check(fits, "'dY' has shape {} for matrices {}", text_of(*given), text_of(*x));
  }
  context.set_output(0, context.input(0));
}

}  // namespace

const OpDef det{
    .name = "Det",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer_determinant,
    .operations = determinant_operations,
    .gradient = [](GradientContext& c) { c.set(0, c.input(0).combine("tessera::DetGradient", {c.gradient()})); },
};

// dX = dY times the cofactors of X, which singular matrices have as well (Jacobi's formula).
const OpDef det_gradient{
    .name = "tessera::DetGradient",
    .since = 1,
    .inputs = {{"X", types::floats, "T"}, {"dY", types::floats, "T"}},
    .outputs = {{"dX", types::floats, "T"}},
    .infer = infer_determinant_gradient,
    .operations =
        [](const NodeView& view) {
          const Shape& shape = view.input(0).shape;
          const double n = shape.empty() ? 0 : static_cast<double>(shape.back());
          return determinant_operations(view) * n * n;  // one determinant per element
        },
};

}  // namespace tessera::ops
