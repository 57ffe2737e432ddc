#include "ops/convolutions/causal_conv_with_state.h"

#include <limits>

#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_causal_conv_with_state(InferContext& context) {
  const std::string& activation = context.text("activation");
  context.check(activation == "none" || activation == "silu" || activation == "swish",
                "activation is '{}', expected none, silu or swish", activation);
  const ir::Dims x = context.dims(0) != nullptr ? *context.dims(0) : ir::Dims(3);
  context.check(x.size() == 3, "input has shape {}, expected [batch, channels, length]", text_of(x));
  check_operand(context, 1, {x[1], 1, ir::Dim()});
  check_operand(context, 2, {x[1]});
  const ir::Dim kernel = context.dims(1) != nullptr ? (*context.dims(1))[2] : ir::Dim();
  context.check(!kernel.is_known() || kernel.value() >= 1, "the kernel has size 0");
  ir::Dims state{x[0], x[1], kernel - ir::Dim(1)};
  check_operand(context, 3, state);
  context.set_output(0, context.dtype(0), x);
  context.set_output(1, context.dtype(0), std::move(state));
}

double causal_conv_with_state_operations(const NodeView& view) {
  const Shape& weights = view.input(1).shape;
  return 2.0 * static_cast<double>(view.input(0).elements()) *
         static_cast<double>(weights.empty() ? 0 : weights.back());
}

std::optional<std::vector<ir::ValueId>> decompose_causal_conv_with_state(GraphBuilder& builder,
                                                                         const AttributeReader& reader,
                                                                         std::span<const ir::ValueId> inputs) {
  const std::optional<Shape> weights = builder.type(inputs[1]).shape();
  if (!weights || builder.dims(inputs[0]) == nullptr) return {};
  const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
  const Term x(builder, inputs[0]);
  const std::int64_t channels = (*weights)[0], carried = (*weights)[2] - 1;
  const Term past =
      given(3) ? Term(builder, inputs[3]) : x.number(0).expand(join({x.size_of(0), x.integers({channels, carried})}));
  const Term padded = past.combine("Concat", {x}, {{"axis", std::int64_t{2}}});
  std::vector<ir::ValueId> operands{padded.id(), inputs[1]};
  if (given(2)) operands.push_back(inputs[2]);
  Term y = Term(builder, builder.add("Conv", operands, {{"group", channels}})).of_shape(x);
  if (reader.text("activation") != "none") y = y.apply("Swish");
  // The end of the axis; empty where no positions are carried.
  const Term from = padded.size_of(2) - x.integers({carried});
  const Term state =
      padded.combine("Slice", {from, x.integers({std::numeric_limits<std::int64_t>::max()}), x.integers({2})});
  return std::vector<ir::ValueId>{y.id(), state.of_shape(past).id()};
}

}  // namespace

// padded = concat(past_state or zeros, input); output = activation(depthwise convolution of padded + bias);
// present_state = the last kernel - 1 positions of padded.
const OpDef causal_conv_with_state{
    .name = "CausalConvWithState",
    .since = 27,
    .inputs = {{"input", types::floats_to_f32, "T"},
               {"weight", types::floats_to_f32, "T"},
               {"bias", types::floats_to_f32, "T", optional},
               {"past_state", types::floats_to_f32, "T", optional}},
    .outputs = {{"output", types::floats_to_f32, "T"}, {"present_state", types::floats_to_f32, "T"}},
    .attributes = {{"activation", ir::AttributeKind::text, ir::Attribute(std::string("none"))}},
    .infer = infer_causal_conv_with_state,
    .operations = causal_conv_with_state_operations,
    .decompose = decompose_causal_conv_with_state,
};

}  // namespace tessera::ops
