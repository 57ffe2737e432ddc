#include <algorithm>
#include <cmath>

#include "io/onnx/downgrade/downgrade_rules.h"

namespace tessera::io {
namespace {

std::optional<std::vector<float>> reals(const Downgrade& downgrade, std::size_t i) {
  if (!downgrade.has_input(i)) return std::nullopt;
  const Tensor* value =
      downgrade.builder.type(downgrade.node.inputs[i]).dtype == DType::f32 ? downgrade.constant(i) : nullptr;
  if (value == nullptr) return std::nullopt;
  return std::vector<float>(value->data<float>(), value->data<float>() + value->elements());
}

ir::ValueId constant_of(Downgrade& downgrade, const std::vector<float>& values) {
  return downgrade.builder.constant(
      Tensor::from<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values)));
}

// Whether the nearest element, when an image is enlarged by an integer factor, is the one at the coordinate rounded
// down, as in version 10. Between the centres of pixels it is, however ties are rounded, because there are no ties.
bool rounds_down(const std::string& transformation, const std::string& rounding,
                 const std::optional<std::vector<float>>& scales) {
  if (transformation == "asymmetric" && rounding == "floor") return true;
  const bool whole =
      scales && std::ranges::all_of(*scales, [](float scale) { return scale >= 1 && std::floor(scale) == scale; });
  return whole && transformation == "half_pixel" && rounding.starts_with("round_prefer");
}

}  // namespace

// Attribute axes: scales and sizes are given for every axis.
bool resize_to_17(Downgrade& downgrade) {
  const auto axes = downgrade.find<std::vector<std::int64_t>>("axes");
  downgrade.erase("axes");
  if (!axes) return true;
  const ir::ValueType& type = downgrade.builder.type(downgrade.node.inputs[0]);
  if (!type.dims || downgrade.has_input(1)) return false;
  const std::size_t rank = type.dims->size();
  const std::optional<std::vector<float>> scales = reals(downgrade, 2);
  const std::optional<std::vector<std::int64_t>> sizes = downgrade.has_input(3) ? downgrade.integers(3) : std::nullopt;
  std::vector<float> all_scales(rank, 1);
  std::vector<std::int64_t> all_sizes;
  for (const ir::Dim& dim : *type.dims) all_sizes.push_back(dim.is_known() ? dim.value() : -1);
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const auto axis =
        static_cast<std::size_t>((*axes)[i] < 0 ? (*axes)[i] + static_cast<std::int64_t>(rank) : (*axes)[i]);
    if (axis >= rank) return false;
    if (scales && i < scales->size()) all_scales[axis] = (*scales)[i];
    if (sizes && i < sizes->size()) all_sizes[axis] = (*sizes)[i];
  }
  if (sizes && std::ranges::find(all_sizes, -1) == all_sizes.end()) {
    downgrade.set_input(3, downgrade.builder.integers(std::move(all_sizes)));
    return true;
  }
  if (!scales || downgrade.has_input(3)) return false;
  downgrade.set_input(2, constant_of(downgrade, all_scales));
  return true;
}

// Inputs roi and scales were not optional: absent ones become empty.
bool resize_to_12(Downgrade& downgrade) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!downgrade.has_input(i)) downgrade.set_input(i, constant_of(downgrade, {}));
  }
  return true;
}

// X, roi, scales -> X, scales; coordinates were output / scale, rounded down for "nearest".
bool resize_to_10(Downgrade& downgrade) {
  const std::string mode = downgrade.text_or("mode", "nearest"),
                    transformation = downgrade.text_or("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = downgrade.text_or("nearest_mode", "round_prefer_floor");
  const std::optional<std::vector<float>> scales = reals(downgrade, 2);
  const bool empty = scales && scales->empty();
  if (!downgrade.has_input(2) || empty || downgrade.has_input(3)) return false;
  const bool same = mode == "nearest" ? rounds_down(transformation, rounding, scales)
                                      : mode == "linear" && transformation == "asymmetric";
  if (!same || downgrade.integer_or("exclude_outside", 0) != 0) return false;
  downgrade.node.inputs = {downgrade.node.inputs[0], downgrade.node.inputs[2]};
  for (const char* name :
       {"coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "nearest_mode"})
    downgrade.erase(name);
  return true;
}

// The operator was called Upsample.
bool resize_to_9(Downgrade& downgrade) {
  downgrade.node.op = "Upsample";
  return true;
}

}  // namespace tessera::io
