#include "ops/convolutions/fused_conv.h"

#include "ops/convolutions/conv.h"
#include "ops/core/product.h"
#include "ops/element_wise/fused_activation.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

void infer_fused_conv(InferContext& context) {
  check_activation(context);
  infer_convolution(context, {}, context.dtype(0));
  if (context.wants_output(0) && context.results()[0] && context.results()[0]->dims)
    check_addend(context, 3, *context.results()[0]->dims);
}

std::optional<std::vector<ValueId>> decompose_fused_conv(GraphBuilder& builder, const AttributeReader& reader,
                                                         std::span<const ValueId> inputs) {
  const std::size_t operands = std::min<std::size_t>(inputs.size(), 3);
  ValueId result = builder.add("Conv", {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(operands)},
                               reader.given_among(convolution_attributes()));
  if (inputs.size() > 3 && inputs[3].valid()) result = builder.add("Add", {result, inputs[3]});
  return std::vector{add_activation(builder, reader, result)};
}

std::vector<AttributeSpec> fused_conv_attributes() {
  std::vector<AttributeSpec> specs = convolution_attributes();
  for (AttributeSpec& spec : activation_attributes()) specs.push_back(std::move(spec));
  return specs;
}

}  // namespace

// Y = activation(Conv(X, W, B) + Z)
const OpDef fused_conv{
    .name = "com.microsoft::FusedConv",
    .since = 1,
    .product = convolution_product<1>,
    .inputs = {{"X", types::floats, "T"},
               {"W", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"Z", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = fused_conv_attributes(),
    .infer = infer_fused_conv,
    .operations = convolution_operations<1>,
    .decompose = decompose_fused_conv,
};

}  // namespace tessera::ops
