#include "ops/rows/arg_max.h"

#include "ops/core/text_of.h"
#include "ops/rows/reduction.h"

namespace tessera::ops {
namespace {

void infer_arg_max(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, DType::i64);
  const std::int64_t axes[] = {normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()))};
  const ir::Dim& length = (*dims)[static_cast<std::size_t>(axes[0])];
  context.check(!length.is_known() || length.value() > 0, "axis {} of {} has no elements to choose from", axes[0],
                text_of(*dims));
  context.set_output(0, DType::i64, reduced_dims(*dims, axes, context.integer("keepdims") != 0));
}

OpDef arg_extreme(std::string_view name) {
  return {.name = name,
          .since = 13,
          .inputs = {{"data", types::numbers, "T"}},
          .outputs = {{"reduced", types::i64}},
          .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                         {"keepdims", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                         {"select_last_index", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
          .infer = infer_arg_max,
          .operations = operations_per_input<1>,
          .traits = {Trait::discontinuous}};
}

}  // namespace

const OpDef arg_max = arg_extreme("ArgMax");
const OpDef arg_min = arg_extreme("ArgMin");

}  // namespace tessera::ops
