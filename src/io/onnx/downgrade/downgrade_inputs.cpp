// Inputs that were attributes in older versions. They must be constants.
#include <algorithm>

#include "io/onnx/downgrade/downgrade_rules.h"

namespace tessera::io {
namespace {

using Integers = std::vector<std::int64_t>;

// Makes integers in input i an attribute. True also if there is no such input.
bool integers_to_attribute(Downgrade& downgrade, std::size_t i, std::string name) {
  if (!downgrade.has_input(i)) return true;
  std::optional<Integers> values = downgrade.integers(i);
  if (!values) return false;
  downgrade.node.attributes[std::move(name)] = *std::move(values);
  downgrade.drop_input(i);
  return true;
}

}  // namespace

// Squeeze, Unsqueeze, Reduce*: input 1 -> attribute axes. Before version 11 axes were not negative.
bool axes_to_attribute(Downgrade& downgrade) {
  const bool noop = downgrade.integer_or("noop_with_empty_axes", 0) != 0;
  downgrade.erase("noop_with_empty_axes");
  std::optional<Integers> axes = Integers{};
  if (downgrade.has_input(1)) axes = downgrade.integers(1);
  if (!axes) return false;
  if (axes->empty() && noop) return downgrade.become({downgrade.node.inputs[0]});
  if (downgrade.has_input(1)) downgrade.drop_input(1);
  if (axes->empty()) return downgrade.node.op != "Unsqueeze";
  std::optional<std::int64_t> rank = downgrade.rank(0);
  if (rank && downgrade.node.op == "Unsqueeze") *rank += static_cast<std::int64_t>(axes->size());
  const bool negative = std::ranges::any_of(*axes, [](std::int64_t axis) { return axis < 0; });
  if (negative && !rank && downgrade.version < 11) return false;
  for (std::int64_t& axis : *axes) axis += axis < 0 ? rank.value_or(0) : 0;
  downgrade.node.attributes["axes"] = *std::move(axes);
  return true;
}

// Inputs min, max -> attributes. Limits that are no constants are taken by Max and Min.
bool clip_to_10(Downgrade& downgrade) {
  bool constant = true;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    constant = constant && (!downgrade.has_input(i) || downgrade.real(i));
  if (!constant) {
    ir::ValueId value = downgrade.node.inputs[0];
    if (downgrade.has_input(1)) value = downgrade.builder.add("Max", {value, downgrade.node.inputs[1]});
    if (downgrade.has_input(2)) value = downgrade.builder.add("Min", {value, downgrade.node.inputs[2]});
    return downgrade.become({value});
  }
  for (const std::size_t i : {std::size_t{2}, std::size_t{1}}) {
    if (!downgrade.has_input(i)) continue;
    downgrade.node.attributes[i == 1 ? "min" : "max"] = *downgrade.real(i);
    downgrade.drop_input(i);
  }
  return true;
}

// Input axis (default -2) -> attribute axis (default 1), which was not negative.
bool dft_to_19(Downgrade& downgrade) {
  std::int64_t axis = -2;
  if (downgrade.has_input(2)) {
    const std::optional<Integers> given = downgrade.integers(2);
    if (!given || given->size() != 1) return false;
    axis = given->front();
    downgrade.drop_input(2);
  }
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  if (axis < 0 && !rank) return false;
  downgrade.node.attributes["axis"] = axis < 0 ? axis + *rank : axis;
  return true;
}

// Input ratio -> attribute, where nothing is dropped: older versions could not train. The contents of their mask are
// undefined in that case.
bool dropout_to_11(Downgrade& downgrade) {
  downgrade.erase("seed");
  if (downgrade.has_input(2)) {
    const Tensor* training = downgrade.constant(2);
    if (training == nullptr || training->elements() != 1 || training->data<bool>()[0]) return false;
    downgrade.drop_input(2);
  }
  if (downgrade.wants_output(1)) {
    const ir::ValueId x = downgrade.node.inputs[0], shape = downgrade.builder.add("Shape", {x});
    const bool kept[] = {true};
    return downgrade.become(
        {x, downgrade.builder.add("ConstantOfShape", {shape},
                                  {{"value", Tensor::from<bool>({1}, std::span<const bool>(kept))}})});
  }
  if (!downgrade.has_input(1)) return true;
  const std::optional<float> ratio = downgrade.real(1);
  if (!ratio) return false;
  downgrade.node.attributes["ratio"] = *ratio;
  downgrade.drop_input(1);
  return true;
}

// Input axes: pads are given for every axis.
bool pad_to_17(Downgrade& downgrade) {
  if (!downgrade.has_input(3)) return true;
  const std::optional<Integers> axes = downgrade.integers(3), some = downgrade.integers(1);
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  if (!axes || !some || !rank || some->size() != 2 * axes->size()) return false;
  Integers pads(static_cast<std::size_t>(2 * *rank), 0);
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + *rank : (*axes)[i];
    if (axis < 0 || axis >= *rank) return false;
    pads[static_cast<std::size_t>(axis)] = (*some)[i];
    pads[static_cast<std::size_t>(axis + *rank)] = (*some)[i + axes->size()];
  }
  downgrade.drop_input(3);
  downgrade.set_input(1, downgrade.builder.integers(std::move(pads)));
  return true;
}

// Inputs pads, constant_value -> attributes pads, value
bool pad_to_10(Downgrade& downgrade) {
  if (downgrade.has_input(2)) {
    const std::optional<float> value = downgrade.real(2);
    if (!value) return false;
    downgrade.node.attributes["value"] = *value;
    downgrade.drop_input(2);
  }
  return integers_to_attribute(downgrade, 1, "pads");
}

// Inputs starts, ends, axes -> attributes; there were no steps.
bool slice_to_9(Downgrade& downgrade) {
  if (downgrade.has_input(4)) {
    const std::optional<Integers> steps = downgrade.integers(4);
    if (!steps || std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) return false;
    downgrade.drop_input(4);
  }
  if (downgrade.has_input(3)) {
    const std::optional<Integers> axes = downgrade.integers(3);
    const bool negative = axes && std::ranges::any_of(*axes, [](std::int64_t axis) { return axis < 0; });
    if (!axes || (negative && !downgrade.rank(0))) return false;
    Integers all = *axes;
    for (std::int64_t& axis : all) axis += axis < 0 ? *downgrade.rank(0) : 0;
    downgrade.node.attributes["axes"] = std::move(all);
    downgrade.drop_input(3);
  }
  return integers_to_attribute(downgrade, 2, "ends") && integers_to_attribute(downgrade, 1, "starts");
}

// Attribute num_outputs: the number of outputs said it, and all parts had to be equal. Where the last is smaller, sizes
// are given.
bool split_to_17(Downgrade& downgrade) {
  const std::optional<std::int64_t> count = downgrade.find<std::int64_t>("num_outputs");
  if (!count) return true;
  downgrade.erase("num_outputs");
  const ir::ValueType& type = downgrade.builder.type(downgrade.node.inputs[0]);
  if (!type.dims || *count < 1) return true;
  const auto rank = static_cast<std::int64_t>(type.dims->size());
  const std::int64_t axis = downgrade.integer_or("axis", 0);
  const auto index = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  if (index >= type.dims->size() || !(*type.dims)[index].is_known()) return true;
  const std::int64_t size = (*type.dims)[index].value(), part = (size + *count - 1) / *count;
  if (size % *count == 0) return true;
  Integers sizes;
  for (std::int64_t begin = 0; sizes.size() < static_cast<std::size_t>(*count); begin += part)
    sizes.push_back(std::clamp<std::int64_t>(size - begin, 0, part));
  downgrade.set_input(1, downgrade.builder.integers(std::move(sizes)));
  return true;
}

// Input split -> attribute
bool split_to_12(Downgrade& downgrade) {
  return integers_to_attribute(downgrade, 1, "split");
}

// Input k -> attribute
bool top_k_to_9(Downgrade& downgrade) {
  const std::optional<Integers> k = downgrade.integers(1);
  if (!k || k->size() != 1) return false;
  downgrade.node.attributes["k"] = k->front();
  downgrade.drop_input(1);
  return true;
}

}  // namespace tessera::io
