#include "ops/quantised/quantised_layers.h"

#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/conv.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/products/linear.h"

namespace tessera::ops {
namespace {

using ir::ValueId;
using Inputs = std::span<const ValueId>;
using At = QuantisedLayerInputs;

void check_vector(const InferContext& context, std::size_t i, const char* what, const ir::Dim& outputs) {
  const ir::Dims* dims = context.has_input(i) ? context.dims(i) : nullptr;
  if (dims == nullptr || dims->empty()) return;
  context.check(dims->size() == 1 && ((*dims)[0].may_equal(outputs) || (*dims)[0].may_equal(1)),
                "{} has shape {}, expected a scalar or [{}]", what, text_of(*dims), text_of(outputs));
}

// Checks the operands besides data and weights; returns the result's element type.
DType check_quantised_layers_operands(const InferContext& context, const ir::Dim& outputs) {
  check_activation(context);
  check_vector(context, At::data_scale, "the scale of 'X'", 1);
  check_vector(context, At::data_zero, "the zero point of 'X'", 1);
  check_vector(context, At::weights_scale, "the scale of 'W'", outputs);
  check_vector(context, At::weights_zero, "the zero point of 'W'", outputs);
  const ir::Dims *scales = context.dims(At::weights_scale),
                 *zeros = context.has_input(At::weights_zero) ? context.dims(At::weights_zero) : nullptr;
  context.check(scales == nullptr || zeros == nullptr || scales->size() == zeros->size(),
                "the scale of 'W' is {}, its zero point {}, expected as many of either", text_of(scales),
                text_of(zeros));
  check_vector(context, At::result_scale, "the scale of 'Y'", 1);
  check_vector(context, At::result_zero, "the zero point of 'Y'", 1);
  context.check(context.has_input(At::result_scale) == context.has_input(At::result_zero),
                "a quantised result needs a scale and a zero point");
  if (context.has_input(At::addend)) {
    check_vector(context, At::addend_scale, "the scale of 'Z'", 1);
    check_vector(context, At::addend_zero, "the zero point of 'Z'", 1);
    check_vector(context, At::sum_scale, "the scale of the sum", 1);
    check_vector(context, At::sum_zero, "the zero point of the sum", 1);
    for (const std::size_t i : {At::result_scale, At::addend_scale, At::addend_zero, At::sum_scale, At::sum_zero}) {
      context.check(context.has_input(i), "a sum needs scales and zero points of the result, of 'Z' and of the sum");
    }
    return context.dtype(At::sum_zero);
  }
  return context.has_input(At::result_zero) ? context.dtype(At::result_zero) : DType::f32;
}

void infer_quantised_layers_conv(InferContext& context) {
  const ir::Dims *x = context.dims(At::data), *w = context.dims(At::weights);
  const DType dtype = check_quantised_layers_operands(context, w != nullptr && !w->empty() ? (*w)[0] : ir::Dim());
  std::optional<ir::Dims> data;
  if (x != nullptr) {
    context.check(x->size() >= 3, "input {} has rank {}, expected [N, spatial..., C]", text_of(*x), x->size());
    data = channels_first(*x);
  }
  const std::optional<ir::Dims> result = convolved_dims(context, data ? &*data : nullptr);
  if (!result) return context.set_output_unknown_rank(0, dtype);
  ir::Dims y = channels_last(*result);
  check_addend(context, At::addend, y);
  context.set_output(0, dtype, std::move(y));
}

void infer_linear(InferContext& context) {
  const ir::Dims* w = context.dims(At::weights);
  const ir::Dim outputs = w != nullptr && w->size() == 2 ? (*w)[1] : ir::Dim();
  const DType dtype = check_quantised_layers_operands(context, outputs);
  const std::optional<ir::Dims> result = linear_dims(context, -1, false);
  if (!result) return context.set_output_unknown_rank(0, dtype);
  check_addend(context, At::addend, *result);
  context.set_output(0, dtype, *result);
}

ValueId dequantised(GraphBuilder& builder, ValueId x, ValueId scale, ValueId zero, std::optional<std::int64_t> axis) {
  std::vector<ValueId> operands{x, scale};
  if (zero.valid()) operands.push_back(zero);
  return builder.add("DequantizeLinear", std::move(operands),
                     axis ? ir::Attributes{{"axis", *axis}} : ir::Attributes{});
}

// The layer on real numbers between DequantizeLinear and, for a quantised result, QuantizeLinear, followed by the sum.
// `axis` is that of the weights' scales, if there are several.
std::vector<ValueId> between(GraphBuilder& builder, std::string op, const AttributeReader& reader, Inputs inputs,
                             ir::Attributes attributes, std::int64_t axis) {
  const auto at = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : ValueId{}; };
  for (const auto& [name, value] : reader.given_among(activation_attributes()))
    attributes.insert_or_assign(name, value);
  const ir::Dims* scales = builder.dims(inputs[At::weights_scale]);
  const bool by_output = scales != nullptr && !scales->empty();
  std::vector<ValueId> operands{
      dequantised(builder, inputs[At::data], inputs[At::data_scale], at(At::data_zero), std::nullopt),
      dequantised(builder, inputs[At::weights], inputs[At::weights_scale], at(At::weights_zero),
                  by_output ? std::optional(axis) : std::nullopt)};
  if (at(At::bias).valid()) operands.push_back(inputs[At::bias]);
  const ValueId y = builder.add(std::move(op), std::move(operands), std::move(attributes));
  if (!at(At::result_scale).valid()) return {y};
  const ValueId quantised = builder.add("QuantizeLinear", {y, inputs[At::result_scale], inputs[At::result_zero]});
  if (!at(At::addend).valid()) return {quantised};
  return {
      builder.add("com.microsoft::QLinearAdd",
                  {quantised, inputs[At::result_scale], inputs[At::result_zero], inputs[At::addend],
                   inputs[At::addend_scale], inputs[At::addend_zero], inputs[At::sum_scale], inputs[At::sum_zero]})};
}

std::optional<std::vector<ValueId>> decompose_quantised_layers_conv(GraphBuilder& builder,
                                                                    const AttributeReader& reader, Inputs inputs) {
  return between(builder, "tessera::ChannelsLastConv", reader, inputs, reader.given_among(convolution_attributes()), 0);
}

std::optional<std::vector<ValueId>> decompose_linear(GraphBuilder& builder, const AttributeReader& reader,
                                                     Inputs inputs) {
  return between(builder, "tessera::Linear", reader, inputs, {}, 1);
}

OpDef layer(std::string_view name, decltype(OpDef::product) product, std::vector<AttributeSpec> attributes,
            void (*infer)(InferContext&), double (*operations)(const NodeView&), decltype(OpDef::decompose) decompose) {
  for (AttributeSpec& spec : activation_attributes()) attributes.push_back(std::move(spec));
  return {.name = name,
          .product = product,
          .inputs = {{"X", types::bytes, "T1"},
                     {"W", {DType::i8}, "T2"},
                     {"B", types::f32, "T3", optional},
                     {"x_scale", types::f32, "T3"},
                     {"x_zero_point", types::bytes, "T1", optional},
                     {"w_scale", types::f32, "T3"},
                     {"y_scale", types::f32, "T3", optional},
                     {"y_zero_point", types::bytes, "T4", optional},
                     {"Z", types::bytes, "T4", optional},
                     {"z_scale", types::f32, "T3", optional},
                     {"z_zero_point", types::bytes, "T4", optional},
                     {"sum_scale", types::f32, "T3", optional},
                     {"sum_zero_point", types::bytes, "T4", optional},
                     {"w_zero_point", {DType::i8}, "T2", optional}},
          .outputs = {{"Y", {DType::i8, DType::u8, DType::f32}, "T5"}},
          .attributes = std::move(attributes),
          .infer = infer,
          .operations = operations,
          .decompose = decompose};
}

}  // namespace

// Y = quantised(activation(x_scale (X − x_zero_point) * w_scale (W − w_zero_point) + B)): X [N, spatial..., C], W [M,
// C/group, kernel...] with one scale and zero point or M of each, B [M]. Without y_scale and y_zero_point Y are the
// real numbers, f32. With Z, of Y's shape, the result is QLinearAdd(Y, y_scale, y_zero_point, Z, z_scale, z_zero_point,
// sum_scale, sum_zero_point).
const OpDef quantised_conv =
    layer("tessera::QuantisedConv", convolution_product<1>, convolution_attributes(), infer_quantised_layers_conv,
          convolution_operations<1>, decompose_quantised_layers_conv);

// The corresponding matrix product: X [..., inputs], W [inputs, outputs] with one scale or `outputs`, B [outputs].
const OpDef quantised_linear =
    layer("tessera::QuantisedLinear", linear_product, {}, infer_linear, linear_operations, decompose_linear);

}  // namespace tessera::ops
