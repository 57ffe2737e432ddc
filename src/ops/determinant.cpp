#include "ops/determinant.h"

namespace tessera::ops {
namespace {

void infer(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(dims->size() >= 2 && dims->back().may_equal((*dims)[dims->size() - 2]),
                "shape {} does not hold square matrices", to_string(*dims));
  context.set_output(0, context.dtype(0), ir::Dims(dims->begin(), dims->end() - 2));
}

double operations(const NodeView& view) {
  const Shape& shape = view.input(0).shape;
  return 2.0 / 3.0 * static_cast<double>(view.input(0).elements()) *
         static_cast<double>(shape.empty() ? 0 : shape.back());
}

}  // namespace

const OpDef det{
    .name = "Det",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer,
    .operations = operations,
};

}  // namespace tessera::ops
