#include "ops/movement/trilu.h"

#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

void infer_trilu(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  context.check(dims == nullptr || dims->size() >= 2, "input has rank {}, expected at least 2",
                dims == nullptr ? 0 : dims->size());
  context.set_output(0, context.input(0));
}

}  // namespace

const OpDef trilu{
    .name = "Trilu",
    .since = 14,
    .inputs = {{"input", types::all, "T"}, {"k", types::i64, "", optional}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"upper", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_trilu,
    .gradient =
        [](GradientContext& c) {
          const std::vector<ir::ValueId> inputs{c.gradient().id(), c.has_input(1) ? c.input(1).id() : ir::ValueId{}};
          c.set(0, {c.builder(), c.builder().add("Trilu", inputs, c.node().attributes)});
        },
    .traits = {Trait::moves},
};

}  // namespace tessera::ops
