#include "ops/softmax.h"

namespace tessera::ops {
namespace {

void infer(InferContext& context) {
  if (const ir::Dims* dims = context.dims(0)) normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
  infer_same_as_input(context);
}

}  // namespace

// y_i = exp(x_i - max x) / sum_j exp(x_j - max x)
const OpDef softmax{
    .name = "Softmax",
    .since = 13,
    .inputs = {{"input", types::floats, "T"}},
    .outputs = {{"output", types::floats, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})}},
    .infer = infer,
    .operations = operations_per_output<5>,
};

}  // namespace tessera::ops
