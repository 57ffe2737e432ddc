#include "ops/element_wise/comparison.h"

namespace tessera::ops {
namespace {

void infer_comparison(InferContext& context) {
  infer_broadcast(context);
  if (!context.wants_output(0)) return;
  ir::ValueType type = *context.results()[0];
  type.dtype = DType::boolean;
  context.set_output(0, std::move(type));
}

OpDef comparison(std::string_view name, int since, TypeSet types, Traits traits) {
  return {.name = name,
          .since = since,
          .inputs = {{"A", types, "T"}, {"B", types, "T"}},
          .outputs = {{"C", types::boolean, "T1"}},
          .infer = infer_comparison,
          .operations = operations_per_output<1>,
          .element_wise = ElementWise::broadcasting,
          .traits = traits};
}

}  // namespace

const OpDef equal =
    comparison("Equal", 19, types::numbers | types::boolean | types::text, {Trait::commutative, Trait::discontinuous});
const OpDef greater = comparison("Greater", 13, types::numbers, {Trait::discontinuous});
const OpDef greater_or_equal = comparison("GreaterOrEqual", 16, types::numbers, {Trait::discontinuous});
const OpDef less = comparison("Less", 13, types::numbers, {Trait::discontinuous});
const OpDef less_or_equal = comparison("LessOrEqual", 16, types::numbers, {Trait::discontinuous});
const OpDef logical_and = comparison("And", 7, types::boolean, {Trait::commutative});
const OpDef logical_or = comparison("Or", 7, types::boolean, {Trait::commutative});
const OpDef logical_xor = comparison("Xor", 7, types::boolean, {Trait::commutative});

}  // namespace tessera::ops
