#include <algorithm>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {
namespace {

bool wants_output(const Upgrade& upgrade, std::size_t i) {
  return i < upgrade.node.outputs.size() && upgrade.node.outputs[i].valid();
}

// Whether every dimension from `first` on is known to be 1.
bool only_ones_from(const ir::ValueType& type, std::size_t first) {
  return std::all_of(type.dims->begin() + static_cast<std::ptrdiff_t>(first), type.dims->end(),
                     [](const ir::Dim& dim) { return dim.value() == 1; });
}

}  // namespace

// is_test: whether statistics are computed follows from the outputs that are asked for, as in later versions.
void batch_normalization_7(Upgrade& upgrade) {
  upgrade.take<std::int64_t>("is_test");
}

// spatial = 0: statistics for each activation; y = (x - mean) / sqrt(variance + epsilon) * scale + bias, element by
// element
void batch_normalization_9(Upgrade& upgrade) {
  if (upgrade.take_or<std::int64_t>("spatial", 1) != 0) return;
  require(!wants_output(upgrade, 1) && !wants_output(upgrade, 2), ErrorKind::unsupported, "training with spatial = 0");
  for (std::size_t i = 0; i < 5; ++i) require(upgrade.has_input(i), ErrorKind::invalid_model, "input {} is missing", i);
  const std::vector<ir::ValueId> in = upgrade.node.inputs;
  const ir::ValueId epsilon = upgrade.real_like_input(upgrade.take_or("epsilon", 1e-5f));
  const ir::ValueId deviation = upgrade.add("Sqrt", {upgrade.add("Add", {in[4], epsilon})});
  const ir::ValueId normalised = upgrade.add("Div", {upgrade.add("Sub", {in[0], in[3]}), deviation});
  upgrade.node.op = "Add";
  upgrade.node.inputs = {upgrade.add("Mul", {normalised, in[1]}), in[2]};
  upgrade.node.outputs.resize(1);
  upgrade.node.attributes.clear();
}

// Mean and variance as outputs became training_mode. The outputs saved_mean and saved_var were removed: they are the
// statistics of the batch, one value per channel.
void batch_normalization_14(Upgrade& upgrade) {
  if (upgrade.node.op != "BatchNormalization") return;
  const bool saves = wants_output(upgrade, 3) || wants_output(upgrade, 4);
  if (saves || wants_output(upgrade, 1) || wants_output(upgrade, 2))
    upgrade.set_default("training_mode", std::int64_t{1});
  if (saves) {
    std::vector<std::int64_t> others{0};
    for (std::int64_t axis = 2; axis < upgrade.known_rank(0); ++axis) others.push_back(axis);
    const ir::ValueId x = upgrade.node.inputs[0], axes = upgrade.integers(others);
    const ir::ValueId centred = upgrade.add("Sub", {x, upgrade.add("ReduceMean", {x, axes})});
    const ir::ValueId squares = upgrade.add("Mul", {centred, centred});
    for (std::size_t i = 3; i < upgrade.node.outputs.size(); ++i) {
      if (wants_output(upgrade, i))
        upgrade.after.push_back({"ReduceMean",
                                 "",
                                 {i == 3 ? x : squares, axes},
                                 {upgrade.node.outputs[i]},
                                 {{"keepdims", std::int64_t{0}}},
                                 0});
    }
  }
  if (upgrade.node.outputs.size() > 3) upgrade.node.outputs.resize(3);
}

// Scale and bias per group became scale and bias per channel: [G] -> [G, 1] -> [G, C / G] -> [C]
void group_normalization_21(Upgrade& upgrade) {
  const auto groups = upgrade.node.attributes.find("num_groups");
  const auto* count = groups == upgrade.node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&groups->second);
  require(count != nullptr && *count > 0, ErrorKind::invalid_model,
          "attribute 'num_groups' is missing or not positive");
  for (std::size_t i = 0; i < 3; ++i) require(upgrade.has_input(i), ErrorKind::invalid_model, "input {} is missing", i);
  const ir::ValueId channels =
      upgrade.add("Shape", {upgrade.node.inputs[0]}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
  const ir::ValueId per_group = upgrade.add("Div", {channels, upgrade.integers({*count})});
  const ir::ValueId shape = upgrade.add("Concat", {upgrade.integers({*count}), per_group}, {{"axis", std::int64_t{0}}});
  for (std::size_t i = 1; i <= 2; ++i) {
    const ir::ValueId column = upgrade.add("Unsqueeze", {upgrade.node.inputs[i], upgrade.integers({1})});
    const ir::ValueId repeated = upgrade.add("Expand", {column, shape});
    upgrade.set_input(i, upgrade.add("Reshape", {repeated, upgrade.integers({-1})}));
  }
}

// Softmax, LogSoftmax, Hardmax worked on the input flattened to a matrix at `axis` (default 1): all later dimensions
// together.
void softmax_13(Upgrade& upgrade) {
  require(upgrade.has_input(0), ErrorKind::invalid_model, "input 0 is missing");
  const std::int64_t axis = upgrade.take_or<std::int64_t>("axis", 1);
  const ir::ValueType& type = upgrade.type(0);
  if (type.is_tensor() && type.dims) {
    const auto rank = static_cast<std::int64_t>(type.dims->size());
    const std::int64_t first = axis < 0 ? axis + rank : axis;
    const bool outside = first < 0 || first >= rank;  // left to inference, which says so
    if (outside || only_ones_from(type, static_cast<std::size_t>(first) + 1)) return upgrade.set_default("axis", axis);
  } else if (axis == -1) {
    return upgrade.set_default("axis", axis);
  }
  const ir::ValueId input = upgrade.node.inputs[0];
  const ir::ValueId matrix = upgrade.add("Flatten", {input}, {{"axis", axis}});
  const ir::ValueId result = upgrade.add(upgrade.node.op, {matrix}, {{"axis", std::int64_t{-1}}});
  const ir::ValueId shape = upgrade.add("Shape", {input});
  upgrade.node.op = "Reshape";
  upgrade.node.inputs = {result, shape};
}

}  // namespace tessera::io
