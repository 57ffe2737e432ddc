#include "ops/convolutions/conv_transpose_with_dynamic_pads.h"

#include <numeric>

#include "ops/convolutions/conv.h"
#include "ops/core/builder.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

using ir::Dims;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;

std::vector<AttributeSpec> conv_transpose_with_dynamic_pads_attributes() {
  std::vector<AttributeSpec> specs = convolution_attributes();
  std::erase_if(specs, [](const AttributeSpec& spec) { return spec.name == "pads"; });
  specs.push_back({"output_padding", ir::AttributeKind::integers});
  return specs;
}

// The spatial sizes are unknown until the pads are known; planning decomposes the node then.
void infer_conv_transpose_with_dynamic_pads(InferContext& context) {
  const Dims *x = context.dims(0), *w = context.dims(1);
  if (x == nullptr || w == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(x->size() >= 3 && x->size() == w->size(),
                "input {} and weights {}, expected [N, C, spatial...] and [C, M / group, kernel...]", text_of(*x),
                text_of(*w));
  const auto spatial = static_cast<std::int64_t>(x->size()) - 2;
  if (context.has_input(2)) {
    const std::optional<std::int64_t> length = known_length(context, 2);
    context.check(!length || *length == 2 * spatial, "{} pads, expected {}", length.value_or(0), 2 * spatial);
  }
  Dims y(x->size());
  y[0] = (*x)[0];
  y[1] = (*w)[1] * ir::Dim(context.integer("group"));
  context.set_output(0, context.dtype(0), std::move(y));
}

// Computes the result without padding and crops its ends by the pads.
std::optional<std::vector<ValueId>> decompose_conv_transpose_with_dynamic_pads(GraphBuilder& builder,
                                                                               const AttributeReader& reader,
                                                                               std::span<const ValueId> inputs) {
  const Dims* x = builder.dims(inputs[0]);
  if (x == nullptr) return std::nullopt;
  const auto spatial = static_cast<std::int64_t>(x->size()) - 2;
  const ValueId pads = inputs.size() > 2 ? inputs[2] : ValueId{}, bias = inputs.size() > 3 ? inputs[3] : ValueId{};
  std::vector<ValueId> operands{inputs[0], inputs[1]};
  if (bias.valid()) operands.push_back(bias);
  ir::Attributes given = reader.given_among(conv_transpose_with_dynamic_pads_attributes());
  if (!pads.valid() || reader.text("auto_pad") != "NOTSET")
    return std::vector{builder.add("ConvTranspose", operands, std::move(given))};
  if (const Tensor* known = builder.graph().constant(pads); known != nullptr && known->has_data()) {
    given["pads"] = integers_of(*known);
    return std::vector{builder.add("ConvTranspose", operands, std::move(given))};
  }
  const ValueId full = builder.add("ConvTranspose", operands, std::move(given));
  Integers axes(static_cast<std::size_t>(spatial));
  std::iota(axes.begin(), axes.end(), std::int64_t{2});
  const std::vector<ValueId> halves =
      builder.add_multi("Split", {pads}, 2, {{"axis", std::int64_t{0}}, {"num_outputs", std::int64_t{2}}});
  const ValueId sizes = builder.add("Shape", {full}, {{"start", std::int64_t{2}}});
  const ValueId ends = builder.add("Sub", {sizes, halves[1]});
  return std::vector{builder.add("Slice", {full, halves[0], ends, builder.integers(axes)})};
}

}  // namespace

const OpDef conv_transpose_with_dynamic_pads{
    .name = "com.microsoft::ConvTransposeWithDynamicPads",
    .since = 1,
    .inputs = {{"X", types::floats, "T"},
               {"W", types::floats, "T"},
               {"Pads", types::i64, "", optional},
               {"B", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = conv_transpose_with_dynamic_pads_attributes(),
    .infer = infer_conv_transpose_with_dynamic_pads,
    .decompose = decompose_conv_transpose_with_dynamic_pads,
};

}  // namespace tessera::ops
