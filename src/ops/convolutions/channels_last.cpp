#include "ops/convolutions/channels_last.h"

#include <numeric>

#include "ops/convolutions/conv.h"
#include "ops/convolutions/conv_transpose.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/pooling/pooling.h"
#include "ops/products/rounded_product.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

// The dimensions of input 0 with the channels first; nothing while its rank is unknown.
std::optional<ir::Dims> data_dims(const InferContext& context) {
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return std::nullopt;
  context.check(x->size() >= 3, "input {} has rank {}, expected [N, spatial..., C]", text_of(*x), x->size());
  return channels_first(*x);
}

void infer_channels_last_conv(InferContext& context) {
  check_activation(context);
  const std::optional<ir::Dims> x = data_dims(context);
  const std::optional<ir::Dims> result = convolved_dims(context, x ? &*x : nullptr);
  const DType type = rounded_result_type(context);
  if (!result) return context.set_output_unknown_rank(0, type);
  ir::Dims y = channels_last(*result);
  check_addend(context, 3, y);
  context.set_output(0, type, std::move(y));
}

void infer_conv_transpose(InferContext& context) {
  check_activation(context);
  const std::optional<ir::Dims> x = data_dims(context);
  const std::optional<ir::Dims> y = transposed_dims(context, x ? &*x : nullptr);
  const DType type = rounded_result_type(context);
  if (y) context.set_output(0, type, channels_last(*y));
  else context.set_output_unknown_rank(0, type);
}

void infer_channels_last_pooling(InferContext& context) {
  const std::optional<ir::Dims> x = data_dims(context);
  if (x) context.set_output(0, context.dtype(0), channels_last(pooled_dims(context, *x)));
  else context.set_output_unknown_rank(0, context.dtype(0));
}

// The ONNX operator between transposes; nothing while the rank is unknown.
std::optional<ValueId> between_transposes(GraphBuilder& builder, std::string op, std::vector<ValueId> inputs,
                                          ir::Attributes attributes) {
  const ir::Dims* x = builder.dims(inputs[0]);
  if (x == nullptr) return std::nullopt;
  const std::size_t rank = x->size();
  inputs[0] = builder.add("Transpose", {inputs[0]}, {{"perm", to_channels_first(rank)}});
  const ValueId y = builder.add(std::move(op), std::move(inputs), std::move(attributes));
  return builder.add("Transpose", {y}, {{"perm", to_channels_last(rank)}});
}

std::optional<std::vector<ValueId>> decompose_channels_last_conv(GraphBuilder& builder, const AttributeReader& reader,
                                                                 std::span<const ValueId> inputs) {
  std::vector<ValueId> operands = rounded_operands(builder, reader, inputs);
  const ValueId addend = operands.size() > 3 ? operands[3] : ValueId{};
  operands.resize(std::min<std::size_t>(inputs.size(), 3));
  std::optional<ValueId> y =
      between_transposes(builder, "Conv", std::move(operands), reader.given_among(convolution_attributes()));
  if (!y) return std::nullopt;
  if (addend.valid()) y = builder.add("Add", {*y, addend});
  return std::vector{rounded_result(builder, reader, add_activation(builder, reader, *y))};
}

std::optional<std::vector<ValueId>> decompose_conv_transpose(GraphBuilder& builder, const AttributeReader& reader,
                                                             std::span<const ValueId> inputs) {
  const std::optional<ValueId> y =
      between_transposes(builder, "ConvTranspose", rounded_operands(builder, reader, inputs),
                         reader.given_among(transposed_convolution_attributes()));
  if (!y) return std::nullopt;
  return std::vector{rounded_result(builder, reader, add_activation(builder, reader, *y))};
}

template <const OpDef& pool>
std::optional<std::vector<ValueId>> decompose_pool(GraphBuilder& builder, const AttributeReader& reader,
                                                   std::span<const ValueId> inputs) {
  const std::optional<ValueId> y =
      between_transposes(builder, std::string(pool.name), {inputs[0]}, reader.given_among(pool.attributes));
  if (!y) return std::nullopt;
  return std::vector{*y};
}

std::vector<AttributeSpec> with_activation(std::vector<AttributeSpec> specs) {
  for (AttributeSpec& spec : activation_attributes()) specs.push_back(std::move(spec));
  return specs;
}

std::vector<AttributeSpec> rounding(std::vector<AttributeSpec> specs) {
  for (AttributeSpec& spec : rounding_attributes()) specs.push_back(std::move(spec));
  return specs;
}

OpDef pool(std::string_view name, TypeSet types, std::vector<AttributeSpec> attributes,
           decltype(OpDef::decompose) decompose) {
  return {.name = name,
          .inputs = {{"X", types, "T"}},
          .outputs = {{"Y", types, "T"}},
          .attributes = std::move(attributes),
          .infer = infer_channels_last_pooling,
          .operations = pooling_operations,
          .decompose = decompose};
}

}  // namespace

std::vector<std::int64_t> to_channels_first(std::size_t rank) {
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return channels_first(axes);
}

std::vector<std::int64_t> to_channels_last(std::size_t rank) {
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return channels_last(axes);
}

// Y = activation(Conv(X, W, B) + Z); W [M, C/group, kernel...] as for Conv, Z of Y's shape. Rounded as
// ops/products/rounded_product.h says.
const OpDef channels_last_conv{
    .name = "tessera::ChannelsLastConv",
    .product = convolution_product<1>,
    .inputs = {{"X", types::floats, "T1"},
               {"W", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"Z", types::floats, "T3", optional}},
    .outputs = {{"Y", types::floats, "T2"}},
    .attributes = rounding(with_activation(convolution_attributes())),
    .infer = infer_channels_last_conv,
    .operations = convolution_operations<1>,
    .decompose = decompose_channels_last_conv,
};

// Y = activation(ConvTranspose(X, W, B)); W [C, M/group, kernel...] as for ConvTranspose. Rounded as
// ops/products/rounded_product.h says.
const OpDef channels_last_conv_transpose{
    .name = "tessera::ChannelsLastConvTranspose",
    .product = convolution_product<1, true>,
    .inputs = {{"X", types::floats, "T1"}, {"W", types::floats, "T"}, {"B", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T2"}},
    .attributes = rounding(with_activation(transposed_convolution_attributes())),
    .infer = infer_conv_transpose,
    .operations = transposed_convolution_operations,
    .decompose = decompose_conv_transpose,
};

const OpDef channels_last_max_pool = pool("tessera::ChannelsLastMaxPool", types::floats | TypeSet{DType::i8, DType::u8},
                                          pooling_attributes(), decompose_pool<max_pool>);
const OpDef channels_last_average_pool =
    pool("tessera::ChannelsLastAveragePool", types::floats, average_pooling_attributes(), decompose_pool<average_pool>);

}  // namespace tessera::ops
