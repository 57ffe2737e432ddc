#include "ops/convolutions/window_geometry.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

bool declares(const AttributeReader& reader, std::string_view name) {
  const auto& specs = reader.op().attributes;
  return std::any_of(specs.begin(), specs.end(), [&](const AttributeSpec& spec) { return spec.name == name; });
}

// The list, or `count` times `value` when it is absent. Every entry must be at least `least`.
std::vector<std::int64_t> read_list(const AttributeReader& reader, std::string_view name, std::size_t count,
                                    std::int64_t value, std::int64_t least) {
  if (!declares(reader, name) || !reader.has_attribute(name)) return std::vector<std::int64_t>(count, value);
  const std::vector<std::int64_t>& list = reader.integers(name);
  require(list.size() == count, ErrorKind::invalid_model, "attribute '{}' has {} entries, expected {}", name,
          list.size(), count);
  for (const std::int64_t entry : list) {
    require(entry >= least, ErrorKind::invalid_model, "attribute '{}' has the entry {}, expected at least {}", name,
            entry, least);
  }
  return list;
}

AutoPad read_auto_pad(const AttributeReader& reader) {
  if (!declares(reader, "auto_pad")) return AutoPad::not_set;
  const std::string& mode = reader.text("auto_pad");
  if (mode == "NOTSET" || mode.empty()) return AutoPad::not_set;
  if (mode == "VALID") return AutoPad::valid;
  if (mode == "SAME_UPPER") return AutoPad::same_upper;
  if (mode == "SAME_LOWER") return AutoPad::same_lower;
  fail(ErrorKind::invalid_model, "auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode);
}

bool is_same(AutoPad mode) {
  return mode == AutoPad::same_upper || mode == AutoPad::same_lower;
}

std::int64_t checked_extent(std::int64_t kernel, std::int64_t dilation) {
  return base::checked_add(base::checked_multiply(kernel - 1, dilation), 1);
}

WindowAxis axis_of_window_geometry(const WindowAttributes& attributes, std::size_t axis, std::int64_t input) {
  return {.input = input,
          .kernel = attributes.kernel[axis],
          .stride = attributes.strides[axis],
          .dilation = attributes.dilations[axis]};
}

// Spatial sizes of a shape [N, C, spatial...].
std::span<const std::int64_t> spatial_of(const Shape& shape) {
  return std::span<const std::int64_t>(shape).subspan(std::min<std::size_t>(2, shape.size()));
}

void check_ranks(const Shape& input, const Shape& weights) {
  require(input.size() >= 3, ErrorKind::invalid_model, "input {} has rank {}, expected [N, C, spatial...]",
          text_of(input), input.size());
  require(input.size() == weights.size(), ErrorKind::invalid_model, "input {} and weights {} have different ranks",
          text_of(input), text_of(weights));
}

}  // namespace

std::int64_t WindowAxis::taps_within(std::int64_t o, std::int64_t low, std::int64_t high) const {
  const std::int64_t start = o * stride - pad_begin;
  const std::int64_t first = std::max<std::int64_t>(0, base::ceil_divide(low - start, dilation));
  const std::int64_t end = std::min(kernel, base::ceil_divide(high - start, dilation));
  return std::max<std::int64_t>(0, end - first);
}

WindowAttributes read_window_attributes(const AttributeReader& reader, std::span<const std::int64_t> weight_kernel) {
  const std::size_t rank = weight_kernel.size();
  WindowAttributes result;
  result.kernel.assign(weight_kernel.begin(), weight_kernel.end());
  if (declares(reader, "kernel_shape") && reader.has_attribute("kernel_shape")) {
    result.kernel = read_list(reader, "kernel_shape", rank, 1, 1);
    for (std::size_t i = 0; i < rank; ++i) {
      require(weight_kernel[i] < 0 || weight_kernel[i] == result.kernel[i], ErrorKind::invalid_model,
              "kernel_shape is {}, but the weights have {}", text_of(result.kernel),
              text_of(Shape(weight_kernel.begin(), weight_kernel.end())));
    }
  }
  result.pools = std::ranges::all_of(weight_kernel, [](std::int64_t size) { return size < 0; });
  for (const std::int64_t size : weight_kernel) {
    require(size != 0, ErrorKind::invalid_model, "the weights have a kernel of size 0");
  }
  result.strides = read_list(reader, "strides", rank, 1, 1);
  result.dilations = read_list(reader, "dilations", rank, 1, 1);
  result.auto_pad = read_auto_pad(reader);
  // Exporters leave lists of any length beside an auto_pad that overrides them.
  result.pads = result.auto_pad == AutoPad::not_set ? read_list(reader, "pads", 2 * rank, 0, 0)
                                                    : std::vector<std::int64_t>(2 * rank, 0);
  result.ceil_mode = declares(reader, "ceil_mode") && reader.integer("ceil_mode") != 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (result.kernel[i] > 0) checked_extent(result.kernel[i], result.dilations[i]);
  }
  return result;
}

WindowAxis resolve_window_axis(const WindowAttributes& attributes, std::size_t axis, std::int64_t input) {
  WindowAxis window = axis_of_window_geometry(attributes, axis, input);
  const std::int64_t extent = checked_extent(window.kernel, window.dilation);
  if (is_same(attributes.auto_pad)) {
    window.output = base::ceil_divide(input, window.stride);
    const std::int64_t covered =
        base::checked_add(base::checked_multiply(std::max<std::int64_t>(window.output - 1, 0), window.stride), extent);
    const std::int64_t padding = std::max<std::int64_t>(covered - input, 0);
    window.pad_begin = attributes.auto_pad == AutoPad::same_upper ? padding / 2 : padding - padding / 2;
    window.pad_end = padding - window.pad_begin;
    return window;
  }
  window.pad_begin = attributes.pads[axis];
  window.pad_end = attributes.pads[axis + attributes.rank()];
  const std::int64_t padded = base::checked_add(base::checked_add(input, window.pad_begin), window.pad_end);
  base::checked_add(padded, extent);  // so that positions of windows that reach past the end are representable
  const std::int64_t missing = extent - padded;
  const bool is_clipped = attributes.pools && input > 0 && missing < base::checked_multiply(window.stride, 2);
  require(missing <= 0 || is_clipped, ErrorKind::invalid_model,
          "a window of {} positions (kernel {}, dilation {}) is larger than the padded input of {} at spatial axis {}",
          extent, window.kernel, window.dilation, padded, axis);
  if (missing > 0) {
    window.output = missing < window.stride ? 1 : 0;
    return window;
  }
  const bool round_up = attributes.ceil_mode && attributes.auto_pad == AutoPad::not_set;
  const std::int64_t steps = padded - extent;
  window.output = (round_up ? base::ceil_divide(steps, window.stride) : steps / window.stride) + 1;
  // A window that would start in the padding after the input is left out.
  if (round_up && base::checked_multiply(window.output - 1, window.stride) >= input + window.pad_begin) --window.output;
  return window;
}

ir::Dim window_output_dim(const WindowAttributes& attributes, std::size_t axis, const ir::Dim& input) {
  if (attributes.kernel[axis] < 1) return {};
  if (input.is_known()) return resolve_window_axis(attributes, axis, input.value()).output;
  if (attributes.strides[axis] != 1) return {};
  const std::int64_t extent = checked_extent(attributes.kernel[axis], attributes.dilations[axis]);
  const std::int64_t padding = base::checked_add(attributes.pads[axis], attributes.pads[axis + attributes.rank()]);
  const bool keeps_size = is_same(attributes.auto_pad) || padding == extent - 1;
  return keeps_size ? input : ir::Dim();
}

std::vector<WindowAxis> convolution_geometry(const AttributeReader& reader, const Shape& input, const Shape& weights) {
  check_ranks(input, weights);
  const WindowAttributes attributes = read_window_attributes(reader, spatial_of(weights));
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < attributes.rank(); ++i) axes.push_back(resolve_window_axis(attributes, i, input[i + 2]));
  return axes;
}

std::vector<WindowAxis> pooling_geometry(const AttributeReader& reader, const Shape& input) {
  require(input.size() >= 3, ErrorKind::invalid_model, "input {} has rank {}, expected [N, C, spatial...]",
          text_of(input), input.size());
  const std::vector<std::int64_t> no_weights(input.size() - 2, -1);
  const WindowAttributes attributes = read_window_attributes(reader, no_weights);
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < attributes.rank(); ++i) axes.push_back(resolve_window_axis(attributes, i, input[i + 2]));
  return axes;
}

std::int64_t unpooled_size(const WindowAttributes& attributes, std::size_t axis, std::int64_t input) {
  const std::int64_t pads = base::checked_add(attributes.pads[axis], attributes.pads[axis + attributes.rank()]);
  const std::int64_t covered =
      base::checked_add(base::checked_multiply(input - 1, attributes.strides[axis]), attributes.kernel[axis]);
  require(input == 0 || covered >= pads, ErrorKind::invalid_model, "padding of {} leaves no output at spatial axis {}",
          pads, axis);
  return input == 0 ? 0 : covered - pads;
}

WindowAxis resolve_transposed_axis(const AttributeReader& reader, const WindowAttributes& attributes, std::size_t axis,
                                   std::int64_t input) {
  using base::checked_add;
  using base::checked_multiply;
  WindowAxis window = axis_of_window_geometry(attributes, axis, input);
  const std::size_t rank = attributes.rank();
  const std::int64_t extra = read_list(reader, "output_padding", rank, 0, 0)[axis];
  require(input >= 1, ErrorKind::invalid_model, "the input has size {} at spatial axis {}", input, axis);
  // Positions touched by all windows, with the additional ones at the end.
  const std::int64_t full = checked_add(checked_add(checked_multiply(input - 1, window.stride), extra),
                                        checked_extent(window.kernel, window.dilation));
  const bool shape_given = reader.has_attribute("output_shape");
  if (shape_given || is_same(attributes.auto_pad)) {
    window.output =
        shape_given ? read_list(reader, "output_shape", rank, 1, 1)[axis] : checked_multiply(input, window.stride);
    // Negative when more output is asked for than the windows touch: the rest is bias alone, all of it at the end.
    const std::int64_t padding = full - window.output;
    const std::int64_t smaller = padding >= 0 ? padding / 2 : 0;
    window.pad_begin = attributes.auto_pad == AutoPad::same_upper || padding < 0 ? smaller : padding - smaller;
    window.pad_end = padding - window.pad_begin;
    return window;
  }
  window.pad_begin = attributes.pads[axis];
  window.pad_end = attributes.pads[axis + rank];
  window.output = full - checked_add(window.pad_begin, window.pad_end);
  require(window.output >= 1, ErrorKind::invalid_model,
          "padding of {} + {} leaves no output at spatial axis {} (windows cover {})", window.pad_begin, window.pad_end,
          axis, full);
  return window;
}

std::vector<WindowAxis> transposed_geometry(const AttributeReader& reader, const Shape& input, const Shape& weights) {
  check_ranks(input, weights);
  const WindowAttributes attributes = read_window_attributes(reader, spatial_of(weights));
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < attributes.rank(); ++i) {
    axes.push_back(resolve_transposed_axis(reader, attributes, i, input[i + 2]));
  }
  return axes;
}

std::int64_t convolution_groups(const AttributeReader& reader, std::int64_t inputs, std::int64_t weight_inputs,
                                std::int64_t outputs) {
  const std::int64_t groups = reader.integer("group");
  require(groups >= 1, ErrorKind::invalid_model, "group is {}, expected at least 1", groups);
  require(inputs % groups == 0 && inputs / groups == weight_inputs, ErrorKind::invalid_model,
          "{} input channels in {} groups do not fit weights for {} channels a group", inputs, groups, weight_inputs);
  require(outputs % groups == 0, ErrorKind::invalid_model, "{} output channels do not divide into {} groups", outputs,
          groups);
  return groups;
}

}  // namespace tessera::ops
