#include "ops/causal_conv_with_state.h"

#include "ops/check_operand.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kFloats{DType::f16, DType::bf16, DType::f32};

void infer(InferContext& context) {
  const std::string& activation = context.text("activation");
  context.check(activation == "none" || activation == "silu" || activation == "swish",
                "activation is '{}', expected none, silu or swish", activation);
  const ir::Dims x = context.dims(0) != nullptr ? *context.dims(0) : ir::Dims(3);
  context.check(x.size() == 3, "input has shape {}, expected [batch, channels, length]", to_string(x));
  check_operand(context, 1, {x[1], 1, ir::Dim()});
  check_operand(context, 2, {x[1]});
  const ir::Dim kernel = context.dims(1) != nullptr ? (*context.dims(1))[2] : ir::Dim();
  context.check(!kernel.is_known() || kernel.value() >= 1, "the kernel has size 0");
  ir::Dims state{x[0], x[1], kernel - ir::Dim(1)};
  check_operand(context, 3, state);
  context.set_output(0, context.dtype(0), x);
  context.set_output(1, context.dtype(0), std::move(state));
}

double operations(const NodeView& view) {
  const Shape& weights = view.input(1).shape;
  return 2.0 * static_cast<double>(view.input(0).elements()) *
         static_cast<double>(weights.empty() ? 0 : weights.back());
}

}  // namespace

// padded = concat(past_state or zeros, input); output = activation(depthwise convolution of padded + bias);
// present_state = the last kernel - 1 positions of padded.
const OpDef causal_conv_with_state{
    .name = "CausalConvWithState",
    .since = 27,
    .inputs = {{"input", kFloats, "T"},
               {"weight", kFloats, "T"},
               {"bias", kFloats, "T", optional},
               {"past_state", kFloats, "T", optional}},
    .outputs = {{"output", kFloats, "T"}, {"present_state", kFloats, "T"}},
    .attributes = {{"activation", ir::AttributeKind::text, ir::Attribute(std::string("none"))}},
    .infer = infer,
    .operations = operations,
};

}  // namespace tessera::ops
