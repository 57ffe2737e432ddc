#include "ops/convolutions/conv_transpose.h"

#include "ops/convolutions/conv.h"
#include "ops/convolutions/conv_gradient.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

ir::Dim output_dim(const InferContext& context, const WindowAttributes& attributes, std::size_t axis,
                   const ir::Dim& x) {
  if (attributes.kernel[axis] < 1) return {};
  // An explicit output_shape is the result for any size of the input; resolving it with one size checks it.
  const bool fixed = context.has_attribute("output_shape");
  if (x.is_known() || fixed)
    return resolve_transposed_axis(context, attributes, axis, x.is_known() ? x.value() : 1).output;
  // The output size grows linearly with the input size: if two sizes are preserved, all are.
  const auto output = [&](std::int64_t input) {
    return resolve_transposed_axis(context, attributes, axis, input).output;
  };
  const std::int64_t large = std::int64_t{1} << 20;
  const bool small_padding = attributes.pads[axis] < large && attributes.pads[axis + attributes.rank()] < large;
  return small_padding && output(2 * large) == 2 * large && output(2 * large + 1) == 2 * large + 1 ? x : ir::Dim();
}

void infer_conv_transpose(InferContext& context) {
  std::optional<ir::Dims> y = transposed_dims(context, context.dims(0));
  if (y) context.set_output(0, context.dtype(0), std::move(*y));
  else context.set_output_unknown_rank(0, context.dtype(0));
}

}  // namespace

std::vector<AttributeSpec> transposed_convolution_attributes() {
  std::vector<AttributeSpec> specs = convolution_attributes();
  specs.push_back({"output_padding", ir::AttributeKind::integers});
  specs.push_back({"output_shape", ir::AttributeKind::integers});
  return specs;
}

std::optional<ir::Dims> transposed_dims(const InferContext& context, const ir::Dims* data) {
  const ir::Dims* weights = context.dims(1);
  if (data == nullptr && weights == nullptr) return std::nullopt;
  const ir::Dims unknown(data != nullptr ? data->size() : weights->size());
  const ir::Dims& x = data != nullptr ? *data : unknown;
  const ir::Dims& w = weights != nullptr ? *weights : unknown;
  context.check(x.size() >= 3, "input {} has rank {}, expected [N, C, spatial...]", text_of(x), x.size());
  context.check(x.size() == w.size(), "input {} and weights {} have different ranks", text_of(x), text_of(w));
  context.check(x[1].may_equal(w[0]), "the input has {} channels, but the weights have {}", text_of(x[1]),
                text_of(w[0]));
  const std::int64_t groups = context.integer("group");
  context.check(groups >= 1, "group is {}, expected at least 1", groups);
  const ir::Dim& channels = x[1].is_known() ? x[1] : w[0];
  context.check(!channels.is_known() || channels.value() % groups == 0, "{} channels do not divide into {} groups",
                channels.value(), groups);
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < w.size(); ++i) kernel.push_back(w[i].value());
  const WindowAttributes attributes = read_window_attributes(context, kernel);
  ir::Dims y{x[0], w[1] * ir::Dim(groups)};
  if (context.has_input(2) && context.dims(2) != nullptr) {
    const ir::Dims& bias = *context.dims(2);
    context.check(bias.size() == 1 && bias[0].may_equal(y[1]), "the bias has shape {}, expected [{}]", text_of(bias),
                  text_of(y[1]));
  }
  for (std::size_t i = 0; i < attributes.rank(); ++i) y.push_back(output_dim(context, attributes, i, x[i + 2]));
  return y;
}

double transposed_convolution_operations(const NodeView& view) {
  const Shape& weights = view.input(1).shape;
  if (weights.empty() || weights[0] == 0) return 0;
  return 2.0 * static_cast<double>(view.input(0).elements()) *
         static_cast<double>(view.input(1).elements() / weights[0]);
}

// y[n, m, i * stride - pad + k * dilation] += w[c, m, k] * x[n, c, i], on top of b[m]
const OpDef conv_transpose{
    .name = "ConvTranspose",
    .since = 22,
    .product = convolution_product<1, true>,
    .inputs = {{"X", types::floats, "T"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = transposed_convolution_attributes(),
    .infer = infer_conv_transpose,
    .operations = transposed_convolution_operations,
    .gradient = conv_transpose_gradient,
};

}  // namespace tessera::ops
