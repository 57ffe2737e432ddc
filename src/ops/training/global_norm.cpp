#include "ops/training/global_norm.h"

#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

void infer_norm(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  context.check(dims == nullptr || dims->empty(), "'scale' has shape {}, expected a scalar",
                dims != nullptr ? to_string(*dims) : "");
  context.set_output(0, context.dtype(0), {});
}

double norm_operations(const NodeView& view) {
  double elements = 0;
  for (std::size_t i = 1; i < view.input_count(); ++i) elements += static_cast<double>(view.input(i).elements());
  return 3 * elements;
}

}  // namespace

const OpDef global_norm{
    .name = "tessera::GlobalNorm",
    .since = 1,
    .inputs = {{"scale", types::f32_and_f64, "T"}, {"tensors", types::f32_and_f64, "T", variadic}},
    .outputs = {{"norm", types::f32_and_f64, "T"}},
    .infer = infer_norm,
    .operations = norm_operations,
};

}  // namespace tessera::ops
