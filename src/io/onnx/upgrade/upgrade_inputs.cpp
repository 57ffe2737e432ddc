// Attributes that became inputs.
#include <limits>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {

using Integers = std::vector<std::int64_t>;

// Squeeze, Unsqueeze, Reduce*: attribute axes -> input 1
void axes_to_input(Upgrade& upgrade) {
  if (const auto axes = upgrade.take<Integers>("axes")) upgrade.set_input(1, upgrade.integers(*axes));
}

// Attributes min, max -> inputs 1, 2. The lowest and highest float, the defaults of version 6, are no limits.
void clip_11(Upgrade& upgrade) {
  constexpr float highest = std::numeric_limits<float>::max();
  const float low = upgrade.take_or("min", -highest), high = upgrade.take_or("max", highest);
  if (low != -highest) upgrade.set_input(1, upgrade.real_like_input(low));
  if (high != highest) upgrade.set_input(2, upgrade.real_like_input(high));
}

// Attribute axis (default 1) -> input 2
void dft_20(Upgrade& upgrade) {
  upgrade.set_input(2, upgrade.integer(upgrade.take_or<std::int64_t>("axis", 1)));
}

// Attribute is_test (default 0) -> input training_mode
void dropout_7(Upgrade& upgrade) {
  if (upgrade.take_or<std::int64_t>("is_test", 0) == 0)
    upgrade.set_input(2, upgrade.add_constant(Tensor::scalar(true)));
}

// The mask had the type of the data.
void dropout_10(Upgrade& upgrade) {
  if (upgrade.node.outputs.size() < 2 || !upgrade.node.outputs[1].valid()) return;
  const auto dtype = static_cast<std::int64_t>(upgrade.known_dtype(0));
  upgrade.convert_output(1, "Cast", {{"to", dtype}});
}

// Attribute ratio -> input 1, where it matters: in training
void dropout_12(Upgrade& upgrade) {
  const float ratio = upgrade.take_or("ratio", 0.5f);
  if (upgrade.has_input(2)) upgrade.set_input(1, upgrade.add_constant(Tensor::scalar(ratio)));
}

// Attribute paddings was renamed.
void pad_2(Upgrade& upgrade) {
  upgrade.set_default("pads", upgrade.take_required<Integers>("paddings"));
}

// Attributes pads, value -> inputs 1, 2
void pad_11(Upgrade& upgrade) {
  upgrade.set_input(1, upgrade.integers(upgrade.take_required<Integers>("pads")));
  const float value = upgrade.take_or("value", 0.0f);
  if (value != 0) upgrade.set_input(2, upgrade.real_like_input(value));
}

// Attribute shape -> input 1
void reshape_5(Upgrade& upgrade) {
  upgrade.set_input(1, upgrade.integers(upgrade.take_required<Integers>("shape")));
}

// Attributes starts, ends, axes -> inputs 1, 2, 3
void slice_10(Upgrade& upgrade) {
  upgrade.set_input(1, upgrade.integers(upgrade.take_required<Integers>("starts")));
  upgrade.set_input(2, upgrade.integers(upgrade.take_required<Integers>("ends")));
  if (const auto axes = upgrade.take<Integers>("axes")) upgrade.set_input(3, upgrade.integers(*axes));
}

// Attribute split -> input 1 (where it was before version 2, too)
void split_13(Upgrade& upgrade) {
  const auto split = upgrade.take<Integers>("split");
  if (split && !upgrade.has_input(1)) upgrade.set_input(1, upgrade.integers(*split));
}

// Without sizes the number of outputs must be written out.
void split_18(Upgrade& upgrade) {
  if (!upgrade.has_input(1)) upgrade.set_default("num_outputs", static_cast<std::int64_t>(upgrade.node.outputs.size()));
}

// Inputs tiles and axis (one axis, scalars of the data's type) -> repeats for every axis
void tile_6(Upgrade& upgrade) {
  const std::int64_t rank = upgrade.known_rank(0);
  require(upgrade.has_input(1) && upgrade.has_input(2), ErrorKind::invalid_model,
          "inputs 'tiles' and 'axis' are required");
  const Tensor* axis_value = upgrade.constant(2);
  require(axis_value != nullptr, ErrorKind::unsupported, "an axis that is not constant");
  std::int64_t axis = -1;
  require(axis_value->elements() == 1, ErrorKind::invalid_model, "axis has shape {}, expected one element",
          to_string(axis_value->shape()));
  if (axis_value->dtype() == DType::i64) axis = axis_value->data<std::int64_t>()[0];
  else if (axis_value->dtype() == DType::i32) axis = axis_value->data<std::int32_t>()[0];
  else if (axis_value->dtype() == DType::f32) {
    const float value = axis_value->data<float>()[0];
    require(value >= 0 && value < static_cast<float>(rank), ErrorKind::invalid_model, "axis {} of an input of rank {}",
            value, rank);
    axis = static_cast<std::int64_t>(value);
  } else fail(ErrorKind::unsupported, "an axis of type {}", name_of(axis_value->dtype()));
  require(axis >= 0 && axis < rank, ErrorKind::invalid_model, "axis {} of an input of rank {}", axis, rank);
  const ir::ValueId tiles =
      upgrade.add("Cast", {upgrade.node.inputs[1]}, {{"to", static_cast<std::int64_t>(DType::i64)}});
  const ir::ValueId count = upgrade.add("Reshape", {tiles, upgrade.integers({1})});
  const ir::ValueId repeats = upgrade.add("Concat",
                                          {upgrade.integers(Integers(static_cast<std::size_t>(axis), 1)), count,
                                           upgrade.integers(Integers(static_cast<std::size_t>(rank - axis - 1), 1))},
                                          {{"axis", std::int64_t{0}}});
  upgrade.node.inputs = {upgrade.node.inputs[0], repeats};
}

// Attribute k -> input 1
void top_k_10(Upgrade& upgrade) {
  upgrade.set_input(1, upgrade.integers({upgrade.take_required<std::int64_t>("k")}));
}

}  // namespace tessera::io
