#include "ops/movement/reverse_sequence.h"

#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

void infer_reverse_sequence(InferContext& context) {
  const std::int64_t batch_axis = context.integer("batch_axis"), time_axis = context.integer("time_axis");
  context.check((batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0),
                "batch_axis is {} and time_axis {}, expected 0 and 1 in either order", batch_axis, time_axis);
  const auto lengths = known_length(context, 1);
  if (const ir::Dims* dims = context.dims(0)) {
    context.check(dims->size() >= 2, "input has rank {}, expected at least 2", dims->size());
    const ir::Dim batch = (*dims)[static_cast<std::size_t>(batch_axis)];
    context.check(!lengths || batch.may_equal(*lengths), "{} sequence lengths for a batch of {}", lengths.value_or(0),
                  ir::to_string(batch));
  }
  context.set_output(0, context.input(0));
}

// ReverseSequence is its own inverse.
void reverse_gradient(GradientContext& c) {
  c.set(0, c.gradient().combine("ReverseSequence", {c.input(1)}, c.node().attributes));
}

}  // namespace

const OpDef reverse_sequence{
    .name = "ReverseSequence",
    .since = 10,
    .inputs = {{"input", types::all, "T"}, {"sequence_lens", types::i64}},
    .outputs = {{"Y", types::all, "T"}},
    .attributes = {{"batch_axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   {"time_axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_reverse_sequence,
    .gradient = reverse_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
