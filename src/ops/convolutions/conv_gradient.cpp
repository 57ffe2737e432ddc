#include "ops/convolutions/conv_gradient.h"

#include <algorithm>

#include "base/error.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

// Relates a signal [N, group * inputs, …] to one with one element per window [N, outputs, …] by weights [outputs,
// inputs, kernel…]: Conv maps the first to the second, ConvTranspose the second to the first. Axes are those of the
// Conv.
struct ConvGradientWindows {
  Shape weights;
  std::vector<WindowAxis> axes;
  std::int64_t group = 1;

  std::vector<std::int64_t> list(std::int64_t WindowAxis::* field) const {
    std::vector<std::int64_t> values;
    for (const WindowAxis& axis : axes) values.push_back(axis.*field);
    return values;
  }
  std::vector<std::int64_t> pads() const {
    std::vector<std::int64_t> values = list(&WindowAxis::pad_begin), ends = list(&WindowAxis::pad_end);
    values.insert(values.end(), ends.begin(), ends.end());
    return values;
  }
  ir::Attributes attributes() const {
    return {{"strides", list(&WindowAxis::stride)},
            {"dilations", list(&WindowAxis::dilation)},
            {"pads", pads()},
            {"group", group}};
  }
};

// The first `sizes` elements of each spatial axis.
Term trimmed(Term value, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> starts(sizes.size(), 0), axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.push_back(static_cast<std::int64_t>(i) + 2);
  return value.combine("Slice", {value.integers(starts), value.integers(sizes), value.integers(axes)});
}

// output_padding adds the positions at which no window begins.
Term to_wide(Term windows, Term weights, const ConvGradientWindows& shape) {
  std::vector<std::int64_t> rest;
  for (const WindowAxis& axis : shape.axes)
    rest.push_back(axis.input - ((axis.output - 1) * axis.stride + axis.extent() - axis.pad_begin - axis.pad_end));
  ir::Attributes attributes = shape.attributes();
  attributes.emplace("output_padding", std::move(rest));
  return windows.combine("ConvTranspose", {weights}, std::move(attributes));
}

Term to_windows(Term wide, Term weights, const ConvGradientWindows& shape) {
  return trimmed(wide.combine("Conv", {weights}, shape.attributes()), shape.list(&WindowAxis::output));
}

Term weight_gradient_term(Term wide, Term windows, const ConvGradientWindows& shape) {
  ir::Attributes attributes = shape.attributes();
  attributes.emplace("kernel_shape", shape.list(&WindowAxis::kernel));
  return wide.combine("tessera::ConvWeightGradient", {windows}, std::move(attributes));
}

void set_bias_gradient(GradientContext& c) {
  if (c.wants(2)) c.set(2, c.gradient().sum(axes_but(1, c.gradient().rank()), false));
}

// The shapes with any batch.
std::pair<Shape, Shape> known_shapes(GradientContext& c) {
  const std::optional<Shape> w = c.builder().type(c.input(1).id()).shape();
  ir::Dims dims = c.input(0).dims();
  dims[0] = 1;
  const std::optional<Shape> x = ir::to_shape(dims);
  require(x && w, ErrorKind::unsupported, "the sizes of X or W are not known");
  return {*x, *w};
}

}  // namespace

void conv_gradient(GradientContext& c) {
  set_bias_gradient(c);
  if (!c.wants(0) && !c.wants(1)) return;
  const auto [x, w] = known_shapes(c);
  const ConvGradientWindows shape{w, convolution_geometry(c, x, w), c.integer("group")};
  if (c.wants(0)) c.set(0, to_wide(c.gradient(), c.input(1), shape));
  if (c.wants(1)) c.set(1, weight_gradient_term(c.input(0), c.gradient(), shape));
}

void conv_transpose_gradient(GradientContext& c) {
  set_bias_gradient(c);
  if (!c.wants(0) && !c.wants(1)) return;
  const auto [x, w] = known_shapes(c);
  ConvGradientWindows shape{w, transposed_geometry(c, x, w), c.integer("group")};
  for (WindowAxis& axis : shape.axes) {
    require(axis.pad_begin >= 0 && axis.pad_end >= 0, ErrorKind::unsupported,
            "its output_shape is larger than its windows");
    std::swap(axis.input, axis.output);
  }
  if (c.wants(0)) c.set(0, to_windows(c.gradient(), c.input(1), shape));
  if (c.wants(1)) c.set(1, weight_gradient_term(c.gradient(), c.input(0), shape));
}

}  // namespace tessera::ops
