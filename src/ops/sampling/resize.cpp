#include "ops/sampling/resize.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/numbers/half.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kRoiTypes{DType::f16, DType::f32, DType::f64};

void check_choice(const AttributeReader& reader, std::string_view name,
                  std::initializer_list<std::string_view> choices) {
  const std::string& value = reader.text(name);
  require(std::find(choices.begin(), choices.end(), value) != choices.end(), ErrorKind::invalid_model,
          "attribute '{}' has the unknown value '{}'", name, value);
}

void check_resize_attributes(const AttributeReader& reader) {
  check_choice(reader, "mode", {"nearest", "linear", "cubic"});
  check_choice(reader, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_choice(reader, "keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  check_choice(reader, "coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                "tf_crop_and_resize"});
  require(reader.integer("antialias") == 0 || reader.text("mode") != "nearest", ErrorKind::invalid_model,
          "antialias does not go with mode nearest");
}

std::vector<double> reals_of_resize(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (tensor.dtype() == DType::f32) values.push_back(tensor.data<float>()[i]);
    else if (tensor.dtype() == DType::f64) values.push_back(tensor.data<double>()[i]);
    else values.push_back(base::to_float(tensor.data<f16_t>()[i]));
  }
  return values;
}

std::int64_t checked_size(double size) {
  require(size >= 0 && size < 0x1p62, ErrorKind::over_budget, "a resized dimension of {}", size);
  return static_cast<std::int64_t>(size);
}

// Chooses one factor for all axes, such that no size is exceeded (not_larger) or undercut (not_smaller).
void keep_aspect_ratio(std::vector<ResizedAxis>& result, const Shape& input, const std::vector<std::int64_t>& axes,
                       bool not_larger) {
  double scale = not_larger ? INFINITY : 0;
  bool known = true;
  for (std::int64_t axis : axes) {
    known = known && input[axis] > 0;
    scale = not_larger ? std::min(scale, result[axis].scale) : std::max(scale, result[axis].scale);
  }
  for (std::int64_t axis : axes) {
    result[axis].scale = scale;
    result[axis].size = known ? checked_size(scale * static_cast<double>(input[axis]) + 0.5) : -1;
  }
}

void apply_scales(const AttributeReader& reader, std::vector<ResizedAxis>& result, const Shape& input,
                  const std::vector<std::int64_t>& axes, const Tensor& scales) {
  require(scales.elements() == static_cast<std::int64_t>(axes.size()), ErrorKind::invalid_model,
          "{} scales for {} axes", scales.elements(), axes.size());
  const bool crop = reader.text("coordinate_transformation_mode") == "tf_crop_and_resize";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const float scale = scales.data<float>()[i];
    require(std::isfinite(scale) && scale > 0, ErrorKind::invalid_model, "scale {} of axis {}", scale, axes[i]);
    ResizedAxis& axis = result[axes[i]];
    axis.scale = scale;
    if (input[axes[i]] < 0) {
      axis.size = scale == 1.0f && !crop ? input[axes[i]] : -1;
      continue;
    }
    // In float, as ONNX's own shape inference computes it.
    const float extent = crop ? static_cast<float>(axis.roi_end - axis.roi_start) : 1.0f;
    axis.size = checked_size(std::floor(static_cast<float>(input[axes[i]]) * extent * scale));
  }
}

void infer_resize(InferContext& context) {
  check_resize_attributes(context);
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const auto known_empty = [&](std::size_t i) {
    return !context.has_input(i) ||
           (context.dims(i) != nullptr && context.dims(i)->size() == 1 && (*context.dims(i))[0].value() == 0);
  };
  const bool scales_given = !known_empty(2), sizes_given = !known_empty(3);
  context.check(scales_given != sizes_given, "exactly one of scales and sizes must be given");
  const bool crop = context.text("coordinate_transformation_mode") == "tf_crop_and_resize";
  ir::Dims result(input->size());
  if (context.constant(scales_given ? 2 : 3) == nullptr || (crop && scales_given && context.constant(1) == nullptr)) {
    if (context.has_attribute("axes")) {
      result = *input;
      for (std::int64_t axis : normalise_axes(context.integers("axes"), static_cast<std::int64_t>(input->size())))
        result[axis] = ir::Dim();
    }
    return context.set_output(0, context.dtype(0), std::move(result));
  }
  Shape shape;
  for (const ir::Dim& dim : *input) shape.push_back(dim.value());
  const std::vector<ResizedAxis> axes =
      resolve_resize(context, shape, context.constant(1), scales_given ? context.constant(2) : nullptr,
                     sizes_given ? context.constant(3) : nullptr);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size >= 0) result[i] = axes[i].size;
    else if (axes[i].scale == 1 && !crop) result[i] = (*input)[i];
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

// Multiply-adds of the neighbours, axis by axis; a bound for the antialiased filters' shorter ends.
double resize_operations(const NodeView& view) {
  static constexpr std::array<double, 3> kTaps{0, 2, 4};
  return 2 * kTaps[static_cast<std::size_t>(resize_mode(view))] * static_cast<double>(view.output(0).elements());
}

// R. Keys, "Cubic convolution interpolation for digital image processing" (1981), equation 4.
double cubic(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double linear(double distance) {
  return std::max(0.0, 1 - std::abs(distance));
}

// The filter of linear or cubic interpolation around x; antialiasing stretches it by 1 / scale when shrinking.
ResizeTaps filter_around(const AttributeReader& reader, double x, double scale, std::int64_t input) {
  const bool is_cubic = resize_mode(reader) == ResizeMode::cubic, antialias = reader.integer("antialias") != 0;
  const double a = reader.real("cubic_coeff_a"), reach = is_cubic ? 2 : 1;
  // Narrower than the whole input is enough: a scale below it cannot come from whole sizes.
  const double squeeze = antialias ? std::clamp(scale, 1 / static_cast<double>(input), 1.0) : 1;
  ResizeTaps taps;
  // Every position with |position - x| < reach / squeeze.
  taps.first = static_cast<std::int64_t>(std::floor(x - reach / squeeze)) + 1;
  double sum = 0;
  for (std::int64_t i = taps.first; static_cast<double>(i) < x + reach / squeeze; ++i) {
    const double distance = (static_cast<double>(i) - x) * squeeze;
    taps.weights.push_back(is_cubic ? cubic(distance, a) : linear(distance));
    sum += taps.weights.back();
  }
  const bool exclude = reader.integer("exclude_outside") != 0;
  if (exclude) {
    sum = 0;
    for (std::size_t i = 0; i < taps.weights.size(); ++i) {
      const std::int64_t position = taps.first + static_cast<std::int64_t>(i);
      if (position < 0 || position >= input) taps.weights[i] = 0;
      sum += taps.weights[i];
    }
  }
  if ((antialias || exclude) && sum != 0) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

void gradient_of_resize(GradientContext& c) {
  std::vector<ir::ValueId> inputs{c.gradient().id(), c.input(0).shape().id()};
  for (std::size_t i = 1; i < c.input_count(); ++i) inputs.push_back(c.node().inputs[i]);
  const Term result(c.builder(), c.builder().add("tessera::ResizeGradient", inputs, c.node().attributes));
  c.set(0, result.of_shape(c.input(0)));
}

}  // namespace

std::vector<AttributeSpec> resize_attributes() {
  return {{"antialias", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
          {"axes", ir::AttributeKind::integers},
          {"coordinate_transformation_mode", ir::AttributeKind::text, ir::Attribute(std::string("half_pixel"))},
          {"cubic_coeff_a", ir::AttributeKind::real, ir::Attribute(-0.75f)},
          {"exclude_outside", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
          {"extrapolation_value", ir::AttributeKind::real, ir::Attribute(0.0f)},
          {"keep_aspect_ratio_policy", ir::AttributeKind::text, ir::Attribute(std::string("stretch"))},
          {"mode", ir::AttributeKind::text, ir::Attribute(std::string("nearest"))},
          {"nearest_mode", ir::AttributeKind::text, ir::Attribute(std::string("round_prefer_floor"))}};
}

ResizeMode resize_mode(const AttributeReader& reader) {
  const std::string& mode = reader.text("mode");
  return mode == "nearest" ? ResizeMode::nearest : mode == "linear" ? ResizeMode::linear : ResizeMode::cubic;
}

std::vector<ResizedAxis> resolve_resize(const AttributeReader& reader, const Shape& input, const Tensor* roi,
                                        const Tensor* scales, const Tensor* sizes) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size());
  const std::vector<std::int64_t> axes =
      reader.has_attribute("axes") ? normalise_axes(reader.integers("axes"), rank) : all_axes(rank);
  std::vector<ResizedAxis> result(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) result[i].size = input[i];
  if (reader.text("coordinate_transformation_mode") == "tf_crop_and_resize") {
    require(roi != nullptr && roi->elements() == static_cast<std::int64_t>(2 * axes.size()), ErrorKind::invalid_model,
            "tf_crop_and_resize with {} elements of roi for {} axes", roi == nullptr ? 0 : roi->elements(),
            axes.size());
    const std::vector<double> bounds = reals_of_resize(*roi);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      result[axes[i]].roi_start = bounds[i];
      result[axes[i]].roi_end = bounds[axes.size() + i];
    }
  }
  require((scales != nullptr) != (sizes != nullptr), ErrorKind::invalid_model,
          "exactly one of scales and sizes must be given");
  if (scales != nullptr) {
    apply_scales(reader, result, input, axes, *scales);
    return result;
  }
  const std::vector<std::int64_t> wanted = integers_of(*sizes);
  require(wanted.size() == axes.size(), ErrorKind::invalid_model, "{} sizes for {} axes", wanted.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(wanted[i] >= 0, ErrorKind::invalid_model, "size {} of axis {}", wanted[i], axes[i]);
    result[axes[i]].size = wanted[i];
    // Unknown and empty dimensions have no scale.
    result[axes[i]].scale =
        input[axes[i]] > 0 ? static_cast<double>(wanted[i]) / static_cast<double>(input[axes[i]]) : 0;
  }
  const std::string& policy = reader.text("keep_aspect_ratio_policy");
  if (policy != "stretch") keep_aspect_ratio(result, input, axes, policy == "not_larger");
  return result;
}

double resize_source_position(const AttributeReader& reader, const ResizedAxis& axis, std::int64_t x,
                              std::int64_t input) {
  const std::string& mode = reader.text("coordinate_transformation_mode");
  const double position = static_cast<double>(x), last = static_cast<double>(input) - 1;
  const double width = axis.scale * static_cast<double>(input);
  if (mode == "align_corners") return width == 1 ? 0 : position * last / (width - 1);
  if (mode == "asymmetric") return position / axis.scale;
  if (mode == "tf_crop_and_resize") {
    if (axis.size <= 1) return 0.5 * (axis.roi_start + axis.roi_end) * last;
    return axis.roi_start * last +
           position * (axis.roi_end - axis.roi_start) * last / static_cast<double>(axis.size - 1);
  }
  if (mode == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half_pixel = (position + 0.5) / axis.scale - 0.5;
  if (mode != "half_pixel_symmetric") return half_pixel;
  return static_cast<double>(input) / 2 * (1 - static_cast<double>(axis.size) / width) + half_pixel;
}

std::int64_t resize_nearest_position(const AttributeReader& reader, double x) {
  const std::string& mode = reader.text("nearest_mode");
  if (mode == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  return static_cast<std::int64_t>(std::ceil(x - 0.5));
}

ResizeTaps resize_taps(const AttributeReader& reader, const ResizedAxis& axis, std::int64_t position,
                       std::int64_t input) {
  const bool crop = reader.text("coordinate_transformation_mode") == "tf_crop_and_resize";
  const double bound = static_cast<double>(input);
  double x = resize_source_position(reader, axis, position, input);
  if (crop && !(x >= 0 && x <= bound - 1)) return {.outside = true};
  require(!std::isnan(x), ErrorKind::failed, "position {} of a resized axis has no place in the input", position);
  // Positions far outside give the same as those just outside, because the ends repeat.
  x = std::clamp(x, -bound - 4, 2 * bound + 4);
  if (resize_mode(reader) == ResizeMode::nearest) return {false, resize_nearest_position(reader, x), {1.0}};
  return filter_around(reader, x, axis.scale, input);
}

const OpDef resize{
    .name = "Resize",
    .since = 19,
    .inputs = {{"X", types::all, "T1"},
               {"roi", kRoiTypes, "", optional},
               {"scales", {DType::f32}, "", optional},
               {"sizes", types::i64, "", optional}},
    .outputs = {{"Y", types::all, "T1"}},
    .attributes = resize_attributes(),
    .infer = infer_resize,
    .operations = resize_operations,
    .gradient = gradient_of_resize,
};

}  // namespace tessera::ops
