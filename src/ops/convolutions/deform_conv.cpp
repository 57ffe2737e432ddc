#include "ops/convolutions/deform_conv.h"

#include "ops/convolutions/conv.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

std::vector<AttributeSpec> deform_conv_attributes() {
  std::vector<AttributeSpec> specs = convolution_attributes(false);
  specs.push_back({"offset_group", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})});
  return specs;
}

// Checks offsets and mask: [N, offset_group * kernel elements * per_tap, output spatial...].
void check_per_tap(const InferContext& context, std::size_t input, const ir::Dims& y, const ir::Dim& channels) {
  if (!context.has_input(input) || context.dims(input) == nullptr) return;
  const ir::Dims& dims = *context.dims(input);
  ir::Dims expected = y;
  expected[1] = channels;
  bool fits = dims.size() == expected.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i].may_equal(expected[i]);
  context.check(fits, "'{}' has shape {}, expected {}", context.op().inputs[input].name, text_of(dims),
                text_of(expected));
}

void infer_deform_conv(InferContext& context) {
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

// Inferred from [N, C, spatial...] and offsets: result [N, C * taps, windows] and y [N, 1, output spatial...].
struct DeformConvWindows {
  ir::Dims result, y;
};
std::optional<DeformConvWindows> deformed_dims(const InferContext& context) {
  const ir::Dims* x = context.dims(0);
  const std::vector<std::int64_t>& kernel = context.integers("kernel_shape");
  const WindowAttributes window = read_window_attributes(context, kernel);
  const std::int64_t groups = context.integer("offset_group");
  context.check(groups >= 1, "offset_group is {}, expected at least 1", groups);
  if (x == nullptr) return {};
  context.check(x->size() == kernel.size() + 2 && !kernel.empty(), "X is {} for a kernel {}", text_of(*x),
                text_of(kernel));
  context.check(!(*x)[1].is_known() || (*x)[1].value() % groups == 0, "{} channels do not divide into {} offset groups",
                text_of((*x)[1]), groups);
  DeformConvWindows windows{{}, {(*x)[0], 1}};
  for (std::size_t i = 0; i < kernel.size(); ++i) windows.y.push_back(window_output_dim(window, i, (*x)[2 + i]));
  // The offsets' dimensions may be known where the input's are not.
  for (std::size_t i = 2; context.dims(1) != nullptr && i < windows.y.size() && i < context.dims(1)->size(); ++i) {
    if (!windows.y[i].is_known() && (*context.dims(1))[i].is_known()) windows.y[i] = (*context.dims(1))[i];
  }
  const ir::Dim taps = element_count(kernel);
  windows.result = {(*x)[0], (*x)[1] * taps, ir::product(ir::Dims(windows.y.begin() + 2, windows.y.end()))};
  return windows;
}

void check_samples(const InferContext& context, const DeformConvWindows& windows, std::size_t mask) {
  const std::vector<std::int64_t>& kernel = context.integers("kernel_shape");
  const std::int64_t per_group = element_count(kernel) * context.integer("offset_group");
  check_per_tap(context, 1, windows.y, ir::Dim(per_group) * ir::Dim(static_cast<std::int64_t>(kernel.size())));
  check_per_tap(context, mask, windows.y, ir::Dim(per_group));
}

void infer_windows(InferContext& context) {
  const std::optional<DeformConvWindows> windows = deformed_dims(context);
  if (!windows) return context.set_output(0, context.dtype(0), ir::Dims(3));
  check_samples(context, *windows, 2);
  context.set_output(0, context.dtype(0), windows->result);
}

void infer_windows_gradient(InferContext& context) {
  if (const std::optional<DeformConvWindows> windows = deformed_dims(context)) {
    check_samples(context, *windows, 3);
    check_operand(context, 2, windows->result);
  }
  context.set_output(0, context.input(0));
  context.set_output(1, context.input(1));
  if (context.has_input(3)) context.set_output(2, context.input(3));
  else context.set_output(2, context.dtype(0), {0});
}

std::vector<AttributeSpec> window_attributes_deform_conv() {
  std::vector<AttributeSpec> specs;
  for (AttributeSpec& spec : deform_conv_attributes()) {
    if (spec.name != "group") specs.push_back(std::move(spec));
  }
  for (AttributeSpec& spec : specs) spec.required = spec.required || spec.name == "kernel_shape";
  return specs;
}

// Operations to interpolate all samples of all windows, each from 2^axes elements.
template <std::size_t windows>
double operations_of_samples(const NodeView& view) {
  const Shape& x = view.input(0).shape;
  const double corners =
      x.size() < 2 ? 1 : static_cast<double>(std::int64_t{1} << std::min<std::size_t>(x.size() - 2, 8));
  return 2 * corners * static_cast<double>(windows == 0 ? view.output(0).elements() : view.input(windows).elements());
}

std::optional<std::vector<ir::ValueId>> decompose_deform_conv(GraphBuilder& builder, const AttributeReader& reader,
                                                              std::span<const ir::ValueId> inputs) {
  const std::optional<Shape> w = builder.type(inputs[1]).shape();
  if (!w || builder.dims(inputs[0]) == nullptr || builder.dims(inputs[2]) == nullptr) return {};
  const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
  const std::int64_t groups = reader.integer("group"), features = (*w)[0];
  ir::Attributes deform_conv_attributes = reader.node().attributes;
  deform_conv_attributes.erase("group");
  deform_conv_attributes["kernel_shape"] = std::vector<std::int64_t>(w->begin() + 2, w->end());
  std::vector<ir::ValueId> operands{inputs[0], inputs[2]};
  if (given(4)) operands.push_back(inputs[4]);
  const Term x(builder, inputs[0]), offset(builder, inputs[2]);
  Term samples(builder, builder.add("tessera::DeformedWindows", operands, std::move(deform_conv_attributes)));
  const std::int64_t length = groups == 0 || features == 0 ? 0 : element_count(*w) / features;  // of a sum
  Term weights = Term(builder, inputs[1]).reshape(x.integers({features, length}));
  if (groups != 1) {
    samples = samples.reshape(join({x.size_of(0), x.integers({groups, length}), samples.size_of(2)}));
    weights = weights.reshape(x.integers({groups, features / groups, length}));
  }
  std::vector<Term> shape{x.size_of(0), x.integers({features})};
  std::vector<std::int64_t> spatial;
  for (std::int64_t i = 2; i < offset.rank(); ++i) {
    shape.push_back(offset.size_of(i));
    spatial.push_back(i - 1);
  }
  Term y = weights.combine("MatMul", {samples}).reshape(join(shape));
  if (given(3)) y = y + Term(builder, inputs[3]).unsqueeze(spatial);
  return std::vector<ir::ValueId>{y.id()};
}

void gradient_of_windows(GradientContext& c) {
  std::vector<ir::ValueId> operands{c.input(0).id(), c.input(1).id(), c.gradient().id()};
  if (c.has_input(2)) operands.push_back(c.input(2).id());
  const std::vector<ir::ValueId> gradients =
      c.builder().add_multi("tessera::DeformedWindowsGradient", operands, c.wants(2) ? 3 : 2, c.node().attributes);
  for (std::size_t i = 0; i < gradients.size(); ++i) c.set(i, {c.builder(), gradients[i]});
}

}  // namespace

const OpDef deform_conv{
    .name = "DeformConv",
    .since = 22,
    .product = several_products,
    .inputs = {{"X", types::floats, "T"},
               {"W", types::floats, "T"},
               {"offset", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"mask", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = deform_conv_attributes(),
    .infer = infer_deform_conv,
    .operations = convolution_operations<1>,
    .decompose = decompose_deform_conv,
};

// Row c * taps + k of an image's result holds what tap k of each window samples of channel c, by multilinear
// interpolation (0 outside), times its mask.
const OpDef deformed_windows{
    .name = "tessera::DeformedWindows",
    .since = 1,
    .inputs = {{"X", types::floats, "T"}, {"offset", types::floats, "T"}, {"mask", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = window_attributes_deform_conv(),
    .infer = infer_windows,
    .operations = operations_of_samples<0>,
    .gradient = gradient_of_windows,
};

const OpDef deformed_windows_gradient{
    .name = "tessera::DeformedWindowsGradient",
    .since = 1,
    .inputs = {{"X", types::floats, "T"},
               {"offset", types::floats, "T"},
               {"dY", types::floats, "T"},
               {"mask", types::floats, "T", optional}},
    .outputs = {{"dX", types::floats, "T"}, {"doffset", types::floats, "T"}, {"dmask", types::floats, "T", optional}},
    .attributes = window_attributes_deform_conv(),
    .infer = infer_windows_gradient,
    .operations = [](const NodeView& view) { return 3 * operations_of_samples<2>(view); },
};

}  // namespace tessera::ops
