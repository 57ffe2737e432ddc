#include "ops/classical/squared_distances.h"

#include "ops/core/builder.h"

namespace tessera::ops {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueId;

void infer_squared_distances(InferContext& context) {
  const Dims *a = context.dims(0), *b = context.dims(1);
  for (const Dims* dims : {a, b}) {
    context.check(dims == nullptr || dims->size() == 2, "an operand has shape {}, expected rank 2",
                  dims != nullptr ? to_string(*dims) : "");
  }
  context.check(a == nullptr || b == nullptr || a->back().may_equal(b->back()), "rows of {} and of {} elements",
                a != nullptr ? to_string(a->back()) : "", b != nullptr ? to_string(b->back()) : "");
  context.set_output(0, context.dtype(0), {a != nullptr ? a->front() : Dim(), b != nullptr ? b->front() : Dim()});
}

std::optional<std::vector<ValueId>> decompose_squared_distances(GraphBuilder& builder, const AttributeReader&,
                                                                std::span<const ValueId> inputs) {
  const ValueId a = builder.add("Unsqueeze", {inputs[0], builder.integers({1})});
  const ValueId b = builder.add("Unsqueeze", {inputs[1], builder.integers({0})});
  return {{builder.add("ReduceSumSquare", {builder.add("Sub", {a, b}), builder.integers({2})},
                       {{"keepdims", std::int64_t{0}}})}};
}

double squared_distances_operations(const NodeView& view) {
  return 3.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.input(0).shape.back());
}

}  // namespace

// d[i, j] = the sum over k of (a[i, k] - b[j, k])²
const OpDef squared_distances{
    .name = "tessera::SquaredDistances",
    .since = 1,
    .inputs = {{"A", types::floats, "T"}, {"B", types::floats, "T"}},
    .outputs = {{"D", types::floats, "T"}},
    .infer = infer_squared_distances,
    .operations = squared_distances_operations,
    .decompose = decompose_squared_distances,
    .traits = {Trait::non_negative},
};

}  // namespace tessera::ops
