#include "passes/layout/crop_upsampling.h"

#include <algorithm>
#include <cmath>

#include "ops/convolutions/window_geometry.h"
#include "ops/op_table.h"
#include "ops/sampling/resize.h"

namespace tessera::passes {
namespace {

using ir::ValueId;
using ops::GraphBuilder;
using ops::SliceRange;
using Integers = std::vector<std::int64_t>;

// --- transposed convolution

struct Reach {
  SliceRange input;
  std::int64_t pad_begin = 0, pad_end = 0, output_padding = 0;
};

// The input that a range of outputs needs. Position i of the input adds to outputs from i · stride - pad_begin on, over
// the window's extent.
Reach reach(const ops::WindowAxis& axis, const SliceRange& range) {
  const std::int64_t first = range.start + axis.pad_begin, last = first + range.count - 1;
  const std::int64_t nearest = std::max<std::int64_t>(first - axis.extent() + 1, 0);
  // The first position is at most that of the first output, so that padding is not negative; there is at least one
  // position.
  const std::int64_t low = std::min({(nearest + axis.stride - 1) / axis.stride, first / axis.stride, axis.input - 1});
  const std::int64_t high = std::max(std::min(last / axis.stride + 1, axis.input), low + 1);
  const std::int64_t pad_begin = first - low * axis.stride;
  const std::int64_t beyond = (high - low - 1) * axis.stride + axis.extent() - pad_begin - range.count;
  return {{low, 1, high - low}, pad_begin, std::max<std::int64_t>(beyond, 0), std::max<std::int64_t>(-beyond, 0)};
}

// --- Resize

// The two elements of an axis from which an element of the result is interpolated, and the weight of the second.
struct Neighbours {
  std::int64_t first = 0, second = 0;
  double weight = 0;
};

class ResizeAxis {
 public:
  ResizeAxis(const ops::AttributeReader& reader, const ops::ResizedAxis& axis, std::int64_t input)
      : reader_(reader), axis_(axis), input_(input), nearest_(ops::resize_mode(reader) == ops::ResizeMode::nearest) {}

  Neighbours neighbours(std::int64_t x) const {
    const auto inside = [&](std::int64_t position) { return std::clamp<std::int64_t>(position, 0, input_ - 1); };
    const double position = ops::resize_source_position(reader_, axis_, x, input_);
    if (nearest_) {
      const std::int64_t found = inside(ops::resize_nearest_position(reader_, position));
      return {found, found, 0};
    }
    const double below = std::floor(position);
    return {inside(static_cast<std::int64_t>(below)), inside(static_cast<std::int64_t>(below) + 1), position - below};
  }

 private:
  const ops::AttributeReader& reader_;
  ops::ResizedAxis axis_;
  std::int64_t input_;
  bool nearest_;
};

// A part of the input whose own Resize contains the crop, which begins at `offset` of the whole result.
struct UpsampledPart {
  SliceRange input;
  std::int64_t offset = 0;
  ops::ResizedAxis axis;
};

constexpr std::int64_t kMostPositions = 1 << 16;
// Weights are computed in double from positions; differences below this are rounding.
constexpr double kSameWeight = 1e-9;

bool is_whole(double value) {
  return std::fabs(value - std::nearbyint(value)) < 1e-9 * std::max(1.0, std::fabs(value));
}

bool gives_the_same(const ResizeAxis& whole, const ResizeAxis& part, const UpsampledPart& at, const SliceRange& range) {
  for (std::int64_t i = 0; i < range.count; ++i) {
    const std::int64_t x = range.start + i * range.step;
    const Neighbours wanted = whole.neighbours(x), found = part.neighbours(x - at.offset);
    if (found.first + at.input.start != wanted.first || found.second + at.input.start != wanted.second ||
        std::fabs(found.weight - wanted.weight) > kSameWeight)
      return false;
  }
  return true;
}

std::optional<UpsampledPart> part_for(const ops::AttributeReader& reader, const ops::ResizedAxis& axis,
                                      std::int64_t input, bool by_sizes, const SliceRange& range) {
  if (range.count > kMostPositions || !(axis.scale > 0) || input < 1) return std::nullopt;
  const ResizeAxis whole(reader, axis, input);
  std::int64_t low = input - 1, high = 0;
  for (std::int64_t i = 0; i < range.count; ++i) {
    const Neighbours each = whole.neighbours(range.start + i * range.step);
    low = std::min({low, each.first, each.second});
    high = std::max({high, each.first, each.second});
  }
  // Both edges lie at whole positions of the result. A position whose neighbours differ at the edge may need a wider
  // part.
  for (std::int64_t margin = 0; margin < 2; ++margin) {
    std::int64_t begin = std::max<std::int64_t>(low - margin, 0), end = std::min(high + 1 + margin, input);
    while (begin > 0 && (!is_whole(static_cast<double>(begin) * axis.scale) ||
                         static_cast<double>(begin) * axis.scale > static_cast<double>(range.start)))
      --begin;
    const auto offset = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(begin) * axis.scale));
    const std::int64_t wanted = range.start + (range.count - 1) * range.step + 1 - offset;
    const auto size = [&] {
      return static_cast<std::int64_t>(std::floor(static_cast<double>(end - begin) * axis.scale + 1e-9));
    };
    while (end < input && (!is_whole(static_cast<double>(end - begin) * axis.scale) || size() < wanted)) ++end;
    if (end - begin >= input || size() < wanted) return std::nullopt;
    UpsampledPart part{{begin, 1, end - begin}, offset, axis};
    part.axis.size = size();
    if (by_sizes) part.axis.scale = static_cast<double>(part.axis.size) / static_cast<double>(part.input.count);
    if (gives_the_same(whole, ResizeAxis(reader, part.axis, part.input.count), part, range)) return part;
  }
  return std::nullopt;
}

const Tensor* given(GraphBuilder& builder, const ir::Node& node, std::size_t input) {
  if (node.inputs.size() <= input || !node.inputs[input].valid()) return nullptr;
  const ir::Dims* dims = builder.dims(node.inputs[input]);
  return dims != nullptr && dims->size() == 1 && (*dims)[0].is_known() && (*dims)[0].value() == 0
             ? nullptr
             : builder.graph().constant(node.inputs[input]);
}

}  // namespace

std::optional<ValueId> cropped_transposed(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ir::Dims *x = builder.dims(node.inputs[0]), *w = builder.dims(node.inputs[1]);
  if (x == nullptr || w == nullptr || x->size() < 3 || w->size() != x->size()) return std::nullopt;
  const ops::AttributeReader reader(node, ops::op_of(node));
  const std::size_t spatial = x->size() - 2;
  Integers kernel;
  for (std::size_t i = 0; i < spatial; ++i) kernel.push_back((*w)[i + 2].is_known() ? (*w)[i + 2].value() : -1);
  if (std::ranges::find(kernel, -1) != kernel.end() || reader.has_attribute("output_shape")) return std::nullopt;
  ops::WindowAttributes window = ops::read_window_attributes(reader, kernel);
  if (window.auto_pad != ops::AutoPad::not_set && window.auto_pad != ops::AutoPad::valid) return std::nullopt;
  Integers output_padding = reader.integers_or_empty("output_padding");
  output_padding.resize(spatial, 0);
  Crop data, columns, bias;
  for (const auto& [axis, range] : crop) {
    if (axis >= 2) {
      if (!(*x)[axis].is_known() || range.step != 1) return std::nullopt;
      const Reach found = reach(ops::resolve_transposed_axis(reader, window, axis - 2, (*x)[axis].value()), range);
      if (found.input.count < (*x)[axis].value()) data.emplace(axis, found.input);
      window.pads[axis - 2] = found.pad_begin;
      window.pads[axis - 2 + spatial] = found.pad_end;
      output_padding[axis - 2] = found.output_padding;
    } else if (axis == 1) {
      const bool constant = std::ranges::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
        return !input.valid() || builder.graph().is_constant(input);
      });
      if (reader.integer("group") != 1 || !constant) return std::nullopt;
      columns.emplace(1, range);
      bias.emplace(0, range);
    } else {
      data.emplace(axis, range);
    }
  }
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = cropped(builder, inputs[0], data);
  inputs[1] = cropped(builder, inputs[1], columns);
  if (inputs.size() > 2 && inputs[2].valid()) inputs[2] = cropped(builder, inputs[2], bias);
  ir::Attributes attributes = node.attributes;
  attributes.erase("auto_pad");
  attributes.insert_or_assign("pads", window.pads);
  attributes.insert_or_assign("output_padding", output_padding);
  return builder.add(node.op, std::move(inputs), std::move(attributes));
}

std::optional<ValueId> cropped_resize(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ops::AttributeReader reader(node, ops::op_of(node));
  const ir::Dims* x = builder.dims(node.inputs[0]);
  const Tensor *scales = given(builder, node, 2), *sizes = given(builder, node, 3);
  const bool plain = reader.integer("antialias") == 0 && reader.integer("exclude_outside") == 0 &&
                     reader.text("keep_aspect_ratio_policy") == "stretch" &&
                     reader.text("coordinate_transformation_mode") != "tf_crop_and_resize" &&
                     ops::resize_mode(reader) != ops::ResizeMode::cubic;
  // Interpolated integers are rounded: a weight that differs in its last digits may change the rounding of a half.
  const bool rounds = ops::resize_mode(reader) != ops::ResizeMode::nearest && !is_float(builder.dtype(node.inputs[0]));
  if (x == nullptr || (scales == nullptr) == (sizes == nullptr) || !plain || rounds) return std::nullopt;
  Shape shape;
  for (const ir::Dim& dim : *x) shape.push_back(dim.is_known() ? dim.value() : -1);
  const std::vector<ops::ResizedAxis> axes = ops::resolve_resize(reader, shape, nullptr, scales, sizes);
  Crop data, rest;
  Integers new_sizes;
  for (const ops::ResizedAxis& axis : axes) new_sizes.push_back(axis.size);
  for (const auto& [axis, range] : crop) {
    // Axes that are not resized, of known size or not.
    if (axes[axis].scale == 1 && (shape[axis] < 0 || axes[axis].size == shape[axis])) {
      data.emplace(axis, range);
      new_sizes[axis] = range.count;
      continue;
    }
    const std::optional<UpsampledPart> part = part_for(reader, axes[axis], shape[axis], sizes != nullptr, range);
    if (!part) return std::nullopt;
    data.emplace(axis, part->input);
    new_sizes[axis] = part->axis.size;
    if (range.step != 1 || range.count != part->axis.size)
      rest.emplace(axis, SliceRange{range.start - part->offset, range.step, range.count});
  }
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = cropped(builder, inputs[0], data);
  if (sizes != nullptr) {
    Integers listed;
    if (reader.has_attribute("axes")) {
      for (const std::int64_t axis : reader.integers("axes"))
        listed.push_back(
            new_sizes[static_cast<std::size_t>(ops::normalise_axis(axis, static_cast<std::int64_t>(axes.size())))]);
    } else {
      listed = new_sizes;
    }
    inputs[3] = builder.integers(listed);
  }
  const ValueId resized = builder.add(node.op, std::move(inputs), node.attributes);
  for (const auto& [axis, range] : crop) {
    const ir::Dim& found = (*builder.dims(resized))[axis];
    if (!found.is_known() || found.value() != new_sizes[axis]) return std::nullopt;
  }
  return cropped(builder, resized, rest);
}

}  // namespace tessera::passes
