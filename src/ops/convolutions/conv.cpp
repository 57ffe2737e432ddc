#include "ops/convolutions/conv.h"

#include "ops/convolutions/conv_gradient.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void check_conv_bias(const InferContext& context, std::size_t bias, const ir::Dim& channels) {
  if (!context.has_input(bias) || context.dims(bias) == nullptr) return;
  const ir::Dims& dims = *context.dims(bias);
  context.check(dims.size() == 1 && dims[0].may_equal(channels), "the bias has shape {}, expected [{}]", text_of(dims),
                text_of(channels));
}

void infer_conv(InferContext& context) {
  infer_convolution(context, {}, context.dtype(0));
}

}  // namespace

std::vector<AttributeSpec> convolution_attributes(bool with_auto_pad) {
  std::vector<AttributeSpec> specs{
      {"group", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
      {"kernel_shape", ir::AttributeKind::integers},
      {"strides", ir::AttributeKind::integers},
      {"dilations", ir::AttributeKind::integers},
      {"pads", ir::AttributeKind::integers},
  };
  if (with_auto_pad) specs.push_back({"auto_pad", ir::AttributeKind::text, ir::Attribute(std::string("NOTSET"))});
  return specs;
}

std::optional<ir::Dims> convolved_dims(const InferContext& context, const ir::Dims* data, ConvolutionInputs inputs) {
  const ir::Dims* weights = context.dims(inputs.weights);
  if (data == nullptr && weights == nullptr) return std::nullopt;
  const ir::Dims unknown(data != nullptr ? data->size() : weights->size());
  const ir::Dims& x = data != nullptr ? *data : unknown;
  const ir::Dims& w = weights != nullptr ? *weights : unknown;
  context.check(x.size() >= 3, "input {} has rank {}, expected [N, C, spatial...]", text_of(x), x.size());
  context.check(x.size() == w.size(), "input {} and weights {} have different ranks", text_of(x), text_of(w));
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < w.size(); ++i) kernel.push_back(w[i].value());
  const WindowAttributes attributes = read_window_attributes(context, kernel);
  context.check(context.integer("group") >= 1, "group is {}, expected at least 1", context.integer("group"));
  if (x[1].is_known() && w[0].is_known() && w[1].is_known()) {
    convolution_groups(context, x[1].value(), w[1].value(), w[0].value());
  }
  check_conv_bias(context, inputs.bias, w[0]);
  ir::Dims y{x[0], w[0]};
  for (std::size_t i = 0; i < attributes.rank(); ++i) y.push_back(window_output_dim(attributes, i, x[i + 2]));
  return y;
}

void infer_convolution(InferContext& context, ConvolutionInputs inputs, DType dtype) {
  std::optional<ir::Dims> y = convolved_dims(context, context.dims(inputs.data), inputs);
  if (y) context.set_output(0, dtype, std::move(*y));
  else context.set_output_unknown_rank(0, dtype);
}

// y[n, m, o] = b[m] + sum over c, k of w[m, c, k] * x[n, group of m + c, o * stride - pad + k * dilation], 0 outside x
const OpDef conv{
    .name = "Conv",
    .since = 22,
    .product = convolution_product<1>,
    .inputs = {{"X", types::floats, "T"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = convolution_attributes(),
    .infer = infer_conv,
    .operations = convolution_operations<1>,
    .gradient = conv_gradient,
};

}  // namespace tessera::ops
