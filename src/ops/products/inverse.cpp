#include "ops/products/inverse.h"

#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

void infer_inverse(InferContext& context) {
  if (const ir::Dims* dims = context.dims(0)) {
    context.check(dims->size() >= 2 && dims->back().may_equal((*dims)[dims->size() - 2]),
                  "shape {} does not hold square matrices", to_string(*dims));
  }
  infer_same_as_input(context);
}

// 2 n³ inverse_operations per matrix.
double inverse_operations(const NodeView& view) {
  const Shape& shape = view.input(0).shape;
  return 2.0 * static_cast<double>(view.input(0).elements()) * static_cast<double>(shape.empty() ? 0 : shape.back());
}

// -Yᵀ g Yᵀ
void inverse_gradient(GradientContext& c) {
  const Term y = c.output();
  std::vector<std::int64_t> swapped = axes_but(y.rank() - 2, y.rank());
  swapped.push_back(y.rank() - 2);
  const Term turned = y.transpose(swapped);
  c.set(0, -turned.combine("MatMul", {c.gradient()}).combine("MatMul", {turned}));
}

}  // namespace

// X · Y = 1. A singular matrix gives infinities and NaN.
const OpDef inverse{
    .name = "com.microsoft::Inverse",
    .since = 1,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer_inverse,
    .operations = inverse_operations,
    .gradient = inverse_gradient,
};

}  // namespace tessera::ops
