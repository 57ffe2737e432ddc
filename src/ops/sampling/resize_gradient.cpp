#include "ops/sampling/resize_gradient.h"

#include "base/error.h"
#include "ops/core/shape_arguments.h"
#include "ops/sampling/resize.h"

namespace tessera::ops {
namespace {

void infer_resize_gradient(InferContext& context) {
  const std::optional<std::vector<std::int64_t>> shape = context.constant_integers(1);
  if (shape) {
    for (const std::int64_t size : *shape) context.check(size >= 0, "shape has the entry {}", size);
    return context.set_output(0, context.dtype(0), ir::to_dims(*shape));
  }
  if (const std::optional<std::int64_t> rank = known_length(context, 1))
    return context.set_output(0, context.dtype(0), unknown_dims(*rank));
  context.set_output_unknown_rank(0, context.dtype(0));
}

double resize_gradient_operations(const NodeView& view) {
  const ResizeMode mode = resize_mode(view);
  const double taps = mode == ResizeMode::nearest ? 1 : mode == ResizeMode::linear ? 4 : 16;
  return 2 * taps * static_cast<double>(view.input(0).elements());
}

}  // namespace

// Resize is linear in X: each element of Y is a weighted sum of elements of X. Here each element of dY is added, with
// the same weights, to those elements of dX. `shape` is that of X; the attributes, roi, scales and sizes are Resize's.
const OpDef resize_gradient{
    .name = "tessera::ResizeGradient",
    .since = 1,
    .inputs = {{"dY", types::floats, "T"},
               {"shape", types::i64},
               {"roi", {DType::f16, DType::f32, DType::f64}, "", optional},
               {"scales", {DType::f32}, "", optional},
               {"sizes", types::i64, "", optional}},
    .outputs = {{"dX", types::floats, "T"}},
    .attributes = resize_attributes(),
    .infer = infer_resize_gradient,
    .operations = resize_gradient_operations,
};

}  // namespace tessera::ops
