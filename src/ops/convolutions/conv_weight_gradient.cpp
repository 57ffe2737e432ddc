#include "ops/convolutions/conv_weight_gradient.h"

#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/products/rounded_product.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

std::vector<AttributeSpec> conv_weight_gradient_attributes() {
  return {{"group", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
          {"kernel_shape", ir::AttributeKind::integers, std::nullopt, true},
          {"strides", ir::AttributeKind::integers},
          {"dilations", ir::AttributeKind::integers},
          {"pads", ir::AttributeKind::integers}};
}

std::vector<AttributeSpec> attributes_with_rounding() {
  std::vector<AttributeSpec> specs = conv_weight_gradient_attributes();
  for (AttributeSpec& spec : rounding_attributes()) specs.push_back(std::move(spec));
  return specs;
}

// The type of the gradient: that of the operands, or float32 for rounded operands unless the gradient is rounded too.
DType result_type(const InferContext& context) {
  const bool rounds = context.has_attribute("precision");
  context.check(!rounds || context.text("precision") == "bf16", "precision is '{}', expected bf16",
                rounds ? context.text("precision") : "");
  context.check(rounds || !context.has_attribute("output_dtype"), "output_dtype without precision");
  if (!rounds) return context.dtype(0);
  if (!context.has_attribute("output_dtype")) return DType::f32;
  const std::int64_t type = context.integer("output_dtype");
  context.check(type == static_cast<std::int64_t>(DType::bf16), "output_dtype is {}, expected that of bf16", type);
  return DType::bf16;
}

// Sets the output's type, [M, C / group, kernel…], for X and G with the channels first.
void set_weights(InferContext& context, const std::optional<ir::Dims>& x, const std::optional<ir::Dims>& g,
                 DType type) {
  const std::vector<std::int64_t>& kernel = context.integers("kernel_shape");
  const WindowAttributes windows = read_window_attributes(context, std::vector<std::int64_t>(kernel.size(), -1));
  const std::int64_t group = context.integer("group");
  context.check(group >= 1, "group is {}, expected at least 1", group);
  ir::Dims w{ir::Dim(), ir::Dim()};
  for (const std::int64_t size : windows.kernel) w.push_back(ir::Dim(size));
  for (const auto* data : {&x, &g}) {
    if (!*data) continue;
    context.check((*data)->size() == w.size(), "data of rank {} for a kernel of {} axes", (*data)->size(),
                  kernel.size());
    const ir::Dim& channels = (**data)[1];
    context.check(!channels.is_known() || channels.value() % group == 0, "{} channels do not divide into {} groups",
                  text_of(channels), group);
  }
  if (x && (*x)[1].is_known()) w[1] = ir::Dim((*x)[1].value() / group);
  if (g) w[0] = (*g)[1];
  if (x && g)
    context.check((*x)[0].may_equal((*g)[0]), "X has the batch {}, its gradient {}", text_of((*x)[0]),
                  text_of((*g)[0]));
  context.set_output(0, type, std::move(w));
}

std::optional<ir::Dims> dims_of(const InferContext& context, std::size_t input, bool channels_are_last) {
  const ir::Dims* dims = context.dims(input);
  if (dims == nullptr) return std::nullopt;
  context.check(dims->size() >= 3, "input {} has rank {}, expected at least 3", text_of(*dims), dims->size());
  return channels_are_last ? channels_first(*dims) : *dims;
}

template <bool channels_are_last>
void infer_conv_weight_gradient(InferContext& context) {
  set_weights(context, dims_of(context, 0, channels_are_last), dims_of(context, 1, channels_are_last),
              channels_are_last ? result_type(context) : context.dtype(0));
}

// Each weight is multiplied with each element of its output's gradient.
double conv_weight_gradient_operations(const NodeView& view) {
  const Shape& w = view.output(0).shape;
  if (w.empty() || w[0] == 0) return 0;
  return 2.0 * static_cast<double>(view.input(1).elements()) * static_cast<double>(view.output(0).elements() / w[0]);
}

// Each weight is a correlation of both signals: a convolution of one with the other, in which batch and channels, and
// strides and dilations, are exchanged.
std::optional<std::vector<ValueId>> decompose_conv_weight_gradient(GraphBuilder& builder, const AttributeReader& reader,
                                                                   std::span<const ValueId> inputs) {
  const ir::Dims *x = builder.dims(inputs[0]), *g = builder.dims(inputs[1]);
  if (x == nullptr || g == nullptr) return std::nullopt;
  const std::int64_t group = reader.integer("group");
  const std::size_t rank = x->size();
  if (!(*x)[1].is_known()) return std::nullopt;
  const std::int64_t channels = (*x)[1].value() / group;
  const std::vector<std::int64_t>& kernel = reader.integers("kernel_shape");
  // [N, groups, C / group, …] → [C / group, groups · N, …]
  std::vector<std::int64_t> apart{0, group, channels}, order{2, 1, 0}, together{channels, -1}, swapped{1, 0};
  std::vector<std::int64_t> starts, axes;
  for (std::size_t i = 2; i < rank; ++i) {
    if (!(*x)[i].is_known()) return std::nullopt;
    apart.push_back((*x)[i].value());
    order.push_back(static_cast<std::int64_t>(i) + 1);
    together.push_back((*x)[i].value());
    swapped.push_back(static_cast<std::int64_t>(i));
    starts.push_back(0);
    axes.push_back(static_cast<std::int64_t>(i));
  }
  const Term wide(builder, inputs[0]), windows(builder, inputs[1]);
  const Term signal =
      wide.combine("Reshape", {wide.integers(apart)}).transpose(order).combine("Reshape", {wide.integers(together)});
  const WindowAttributes given = read_window_attributes(reader, std::vector<std::int64_t>(kernel.size(), -1));
  const Term product = signal.combine(
      "Conv", {windows.transpose(swapped)},
      {{"strides", given.dilations}, {"dilations", given.strides}, {"pads", given.pads}, {"group", group}});
  // If positions lie behind the last window, the result is longer than the kernel.
  const Term trimmed = product.combine("Slice", {wide.integers(starts), wide.integers(kernel), wide.integers(axes)});
  return std::vector{trimmed.transpose(swapped).id()};
}

std::optional<std::vector<ValueId>> decompose_channels_last(GraphBuilder& builder, const AttributeReader& reader,
                                                            std::span<const ValueId> inputs) {
  const ir::Dims* x = builder.dims(inputs[0]);
  if (x == nullptr) return std::nullopt;
  const std::vector<std::int64_t> permutation = to_channels_first(x->size());
  std::vector<ValueId> operands;
  for (ValueId input : inputs) {
    if (reader.has_attribute("precision")) input = builder.cast(builder.cast(input, DType::bf16), DType::f32);
    operands.push_back(builder.add("Transpose", {input}, {{"perm", permutation}}));
  }
  const ValueId w = builder.add(std::string(conv_weight_gradient.name), operands,
                                reader.given_among(conv_weight_gradient_attributes()));
  return std::vector{rounded_result(builder, reader, w)};
}

}  // namespace

std::vector<WindowAxis> weight_gradient_geometry(const AttributeReader& reader, const Shape& x, const Shape& g) {
  const WindowAttributes windows =
      read_window_attributes(reader, std::vector<std::int64_t>(reader.integers("kernel_shape").size(), -1));
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < windows.rank(); ++i) {
    axes.push_back({.input = x[i + 2],
                    .output = g[i + 2],
                    .kernel = windows.kernel[i],
                    .stride = windows.strides[i],
                    .dilation = windows.dilations[i],
                    .pad_begin = windows.pads[i],
                    .pad_end = windows.pads[windows.rank() + i]});
  }
  return axes;
}

// w[m, c, k] = sum over n, o of G[n, m, o] · X[n, group of m + c, o · stride - pad + k · dilation], 0 outside of X;
// with X [N, C, spatial…], G [N, M, spatial…], the gradient of Conv's result, and W [M, C / group, kernel…].
const OpDef conv_weight_gradient{
    .name = "tessera::ConvWeightGradient",
    .product = weight_gradient_product<false>,
    .inputs = {{"X", types::floats, "T"}, {"G", types::floats, "T"}},
    .outputs = {{"W", types::floats, "T"}},
    .attributes = conv_weight_gradient_attributes(),
    .infer = infer_conv_weight_gradient<false>,
    .operations = conv_weight_gradient_operations,
    .decompose = decompose_conv_weight_gradient,
};

// ConvWeightGradient where X [N, spatial…, C] and G [N, spatial…, M] have the channels last; W is as above. With
// "precision" = "bf16" X and G are rounded to bfloat16 before they are multiplied, sums are float32, and W is float32,
// or rounded too if "output_dtype" says so.
const OpDef channels_last_conv_weight_gradient{
    .name = "tessera::ChannelsLastConvWeightGradient",
    .product = weight_gradient_product<true>,
    .inputs = {{"X", types::floats, "T"}, {"G", types::floats, "T"}},
    .outputs = {{"W", types::floats, "T2"}},
    .attributes = attributes_with_rounding(),
    .infer = infer_conv_weight_gradient<true>,
    .operations = conv_weight_gradient_operations,
    .decompose = decompose_channels_last,
};

}  // namespace tessera::ops
