#include "ops/quantised/conv_integer.h"

#include "ops/convolutions/conv.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

// A scale or zero point: one value, or one per output channel where `channels` is given.
void check_conv_integer_quantisation(const InferContext& context, std::size_t input, const ir::Dim* channels) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  const ir::Dims& dims = *context.dims(input);
  const std::string_view name = context.op().inputs[input].name;
  const bool single = dims.empty() || (dims.size() == 1 && dims[0].may_equal(1));
  const bool per_channel = channels != nullptr && dims.size() == 1 && dims[0].may_equal(*channels);
  context.check(single || per_channel, "'{}' has shape {}, expected a scalar{}", name, text_of(dims),
                channels != nullptr ? " or one value an output channel" : "");
}

ir::Dim output_channels(const InferContext& context, std::size_t weights) {
  const ir::Dims* dims = context.dims(weights);
  return dims != nullptr && !dims->empty() ? (*dims)[0] : ir::Dim();
}

void infer_conv_integer(InferContext& context) {
  infer_convolution(context, {.data = 0, .weights = 1, .bias = 4}, DType::i32);
  const ir::Dim channels = output_channels(context, 1);
  check_conv_integer_quantisation(context, 2, nullptr);
  check_conv_integer_quantisation(context, 3, &channels);
}

void infer_q_linear_conv(InferContext& context) {
  infer_convolution(context, {.data = 0, .weights = 3, .bias = 8}, context.dtype(7));
  const ir::Dim channels = output_channels(context, 3);
  for (const std::size_t input : {std::size_t{1}, std::size_t{2}, std::size_t{6}, std::size_t{7}}) {
    check_conv_integer_quantisation(context, input, nullptr);
  }
  check_conv_integer_quantisation(context, 4, &channels);
  check_conv_integer_quantisation(context, 5, &channels);
}

}  // namespace

// Conv over x - x_zero_point and w - w_zero_point, in 32-bit integers; padding counts as x_zero_point.
const OpDef conv_integer{
    .name = "ConvInteger",
    .since = 10,
    .product = convolution_product<1>,
    .inputs = {{"x", types::bytes, "T1"},
               {"w", types::bytes, "T2"},
               {"x_zero_point", types::bytes, "T1", optional},
               {"w_zero_point", types::bytes, "T2", optional}},
    .outputs = {{"y", {DType::i32}}},
    .attributes = convolution_attributes(),
    .infer = infer_conv_integer,
    .operations = convolution_operations<1>,
};

// y = saturate(round(x_scale * w_scale / y_scale * (ConvInteger(x, w) + B)) + y_zero_point)
const OpDef q_linear_conv{
    .name = "QLinearConv",
    .since = 10,
    .product = convolution_product<3>,
    .inputs = {{"x", types::bytes, "T1"},
               {"x_scale", types::f32},
               {"x_zero_point", types::bytes, "T1"},
               {"w", types::bytes, "T2"},
               {"w_scale", types::f32},
               {"w_zero_point", types::bytes, "T2"},
               {"y_scale", types::f32},
               {"y_zero_point", types::bytes, "T3"},
               {"B", {DType::i32}, "", optional}},
    .outputs = {{"y", types::bytes, "T3"}},
    .attributes = convolution_attributes(),
    .infer = infer_q_linear_conv,
    .operations = convolution_operations<3>,
};

}  // namespace tessera::ops
