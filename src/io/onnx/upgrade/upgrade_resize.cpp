#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {

// Attributes height_scale, width_scale of an N, C, H, W input -> attribute scales
void upsample_7(Upgrade& upgrade) {
  const float height = upgrade.take_required<float>("height_scale"),
              width = upgrade.take_required<float>("width_scale");
  upgrade.set_default("scales", std::vector<float>{1, 1, height, width});
}

// Attribute scales -> input 1
void upsample_9(Upgrade& upgrade) {
  const auto scales = upgrade.take_required<std::vector<float>>("scales");
  upgrade.set_input(1, upgrade.add_constant(Tensor::from<float>({static_cast<std::int64_t>(scales.size())},
                                                                std::span<const float>(scales))));
}

// Inputs X, scales -> X, roi, scales. Coordinates were output / scale, rounded down for "nearest".
void resize_11(Upgrade& upgrade) {
  require(upgrade.has_input(0) && upgrade.has_input(1), ErrorKind::invalid_model,
          "inputs 'X' and 'scales' are required");
  upgrade.node.inputs = {upgrade.node.inputs[0], {}, upgrade.node.inputs[1]};
  upgrade.set_default("coordinate_transformation_mode", std::string("asymmetric"));
  upgrade.set_default("nearest_mode", std::string("floor"));
}

// Exporters write an input that is not given as an empty constant, too.
void resize_absent_inputs(Upgrade& upgrade) {
  for (std::size_t i = 1; i < 4; ++i) {
    const Tensor* value = upgrade.constant(i);
    if (value != nullptr && value->elements() == 0) upgrade.set_input(i, {});
  }
}

// Upsample became Resize.
void upsample_10(Upgrade& upgrade) {
  upgrade.node.op = "Resize";
  const std::string mode = upgrade.take_or<std::string>("mode", "nearest");
  upgrade.set_default("mode", mode == "bilinear" ? std::string("linear") : mode);
  resize_11(upgrade);
  resize_absent_inputs(upgrade);
}

// tf_half_pixel_for_nn is gone: floor((x + 0.5) / scale) is half_pixel's (x + 0.5) / scale - 0.5 rounded half up.
// Scales had to be given, and did not count, beside sizes.
void resize_13(Upgrade& upgrade) {
  if (upgrade.has_input(3)) upgrade.set_input(2, {});
  const auto mode = upgrade.take<std::string>("coordinate_transformation_mode");
  if (!mode) return;
  if (*mode != "tf_half_pixel_for_nn") return upgrade.set_default("coordinate_transformation_mode", *mode);
  const bool nearest = upgrade.take_or<std::string>("mode", "nearest") == "nearest";
  const std::string rounding = upgrade.take_or<std::string>("nearest_mode", "round_prefer_floor");
  require(nearest && rounding == "floor", ErrorKind::unsupported,
          "tf_half_pixel_for_nn with other than nearest and floor");
  upgrade.set_default("coordinate_transformation_mode", std::string("half_pixel"));
  upgrade.set_default("mode", std::string("nearest"));
  upgrade.set_default("nearest_mode", std::string("round_prefer_ceil"));
}

}  // namespace tessera::io
