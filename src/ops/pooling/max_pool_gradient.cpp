#include "ops/pooling/max_pool_gradient.h"

#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/gradient.h"
#include "ops/pooling/pooling.h"

namespace tessera::ops {
namespace {

void infer_max_pool_gradient(InferContext& context) {
  context.set_output(0, context.input(1));
  const ir::Dims* x = context.dims(1);
  if (x == nullptr) return;
  const bool last = has_channels_last(context, x->size());
  ir::Dims expected = pooled_dims(context, last ? channels_first(*x) : *x);
  if (last) expected = channels_last(expected);
  for (const std::size_t input : {std::size_t{0}, std::size_t{2}}) {
    const ir::Dims* found = context.dims(input);
    if (found == nullptr) continue;
    bool fits = found->size() == expected.size();
    for (std::size_t i = 0; fits && i < expected.size(); ++i) fits = (*found)[i].may_equal(expected[i]);
    context.check(fits, "'{}' has shape {}, but pooling {} gives {}", context.op().inputs[input].name,
                  to_string(*found), to_string(*x), to_string(expected));
  }
}

std::vector<AttributeSpec> max_pool_gradient_attributes() {
  std::vector<AttributeSpec> specs = pooling_attributes();
  specs.push_back({"channel_axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})});
  return specs;
}

}  // namespace

bool has_channels_last(const AttributeReader& reader, std::size_t rank) {
  const std::int64_t axis = normalise_axis(reader.integer("channel_axis"), static_cast<std::int64_t>(rank));
  require(axis == 1 || axis + 1 == static_cast<std::int64_t>(rank), ErrorKind::invalid_model,
          "channel_axis is {}, expected 1 or the last axis", axis);
  return axis != 1;
}

std::vector<WindowAxis> max_pool_gradient_geometry(const AttributeReader& reader, const Shape& x) {
  return pooling_geometry(reader, has_channels_last(reader, x.size()) ? channels_first(x) : x);
}

void max_pool_backward(GradientContext& c) {
  ir::Attributes max_pool_gradient_attributes = c.node().attributes;
  max_pool_gradient_attributes.erase("storage_order");
  c.set(0, c.gradient().combine("tessera::MaxPoolGradient", {c.input(0), c.output()},
                                std::move(max_pool_gradient_attributes)));
}

const OpDef max_pool_gradient{
    .name = "tessera::MaxPoolGradient",
    .since = 1,
    .inputs = {{"dY", types::floats, "T"}, {"X", types::floats, "T"}, {"Y", types::floats, "T"}},
    .outputs = {{"dX", types::floats, "T"}},
    .attributes = max_pool_gradient_attributes(),
    .infer = infer_max_pool_gradient,
    .operations =
        [](const NodeView& view) {
          double taps = 1;
          for (const std::int64_t size : view.integers("kernel_shape")) taps *= static_cast<double>(size);
          return taps * static_cast<double>(view.input(0).elements());
        },
};

}  // namespace tessera::ops
