#include "ops/deform_conv.h"

#include "ops/conv.h"

namespace tessera::ops {
namespace {

std::vector<AttributeSpec> attributes() {
  std::vector<AttributeSpec> specs = convolution_attributes(false);
  specs.push_back({"offset_group", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})});
  return specs;
}

// Offsets and mask: [N, offset_group * kernel elements * per_tap, output spatial...].
void check_per_tap(const InferContext& context, std::size_t input, const ir::Dims& y, const ir::Dim& channels) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  const ir::Dims& dims = *context.dims(input);
  ir::Dims expected = y;
  expected[1] = channels;
  bool fits = dims.size() == expected.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i].may_equal(expected[i]);
  context.check(fits, "'{}' has shape {}, expected {}", context.op().inputs[input].name, to_string(dims),
                to_string(expected));
}

void infer(InferContext& context) {
  infer_convolution(context, {.data = 0, .weights = 1, .bias = 3}, context.dtype(0));
  const std::int64_t groups = context.integer("offset_group");
  context.check(groups >= 1, "offset_group is {}, expected at least 1", groups);
  const ir::Dims* x = context.dims(0);
  const ir::Dims* w = context.dims(1);
  if (x == nullptr || w == nullptr || !context.wants_output(0)) return;
  context.check(!(*x)[1].is_known() || (*x)[1].value() % groups == 0, "{} channels do not divide into {} offset groups",
                (*x)[1].value(), groups);
  const ir::Dim taps = ir::product(ir::Dims(w->begin() + 2, w->end())) * ir::Dim(groups);
  const ir::Dims y = *context.results()[0]->dims;
  check_per_tap(context, 2, y, taps * ir::Dim(static_cast<std::int64_t>(w->size()) - 2));
  check_per_tap(context, 4, y, taps);
}

}  // namespace

const OpDef deform_conv{
    .name = "DeformConv",
    .since = 22,
    .inputs = {{"X", types::floats, "T"},
               {"W", types::floats, "T"},
               {"offset", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"mask", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = attributes(),
    .infer = infer,
    .operations = convolution_operations<1>,
};

}  // namespace tessera::ops
