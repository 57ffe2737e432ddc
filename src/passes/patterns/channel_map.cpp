#include "passes/patterns/channel_map.h"

#include <algorithm>
#include <cmath>

#include "passes/find.h"

namespace tessera::passes {
namespace {

// The constant as one number per channel, for data of this rank with the channels along `axis`.
std::optional<std::vector<double>> numbers_per_channel(const Tensor* constant, std::size_t axis, std::int64_t channels,
                                                       std::size_t rank) {
  if (constant == nullptr || constant->dtype() != DType::f32 || !constant->has_data() ||
      constant->shape().size() > rank)
    return std::nullopt;
  const std::span<const float> values = constant->values<float>();
  if (values.size() == 1) return std::vector<double>(static_cast<std::size_t>(channels), values[0]);
  const std::size_t missing = rank - constant->shape().size();
  // All elements must lie along the channels: [channels, 1, 1], with or without a leading 1.
  if (constant->elements() != channels || missing > axis || constant->shape()[axis - missing] != channels)
    return std::nullopt;
  return std::vector<double>(values.begin(), values.end());
}

}  // namespace

ChannelMap ChannelMap::identity(std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  return {std::vector<double>(count, 1.0), std::vector<double>(count, 0.0)};
}

void ChannelMap::then(const ChannelMap& next) {
  for (std::size_t c = 0; c < scale.size(); ++c) {
    scale[c] *= next.scale[c];
    shift[c] = shift[c] * next.scale[c] + next.shift[c];
  }
}

bool ChannelMap::scales() const {
  return std::ranges::any_of(scale, [](double each) { return each != 1; });
}
bool ChannelMap::shifts() const {
  return std::ranges::any_of(shift, [](double each) { return each != 0; });
}

bool ChannelMap::is_finite() const {
  const auto finite = [](double each) { return std::isfinite(static_cast<float>(each)); };
  return std::ranges::all_of(scale, finite) && std::ranges::all_of(shift, finite);
}

std::optional<ChannelMap> batch_normalisation_map(const ir::Graph& graph, const ir::Node& node, std::int64_t channels) {
  std::vector<std::vector<double>> operands;
  for (std::size_t i = 1; i < 5; ++i) {
    const Tensor* constant = graph.constant(node.inputs[i]);
    if (constant == nullptr || constant->dtype() != DType::f32 || !constant->has_data() ||
        constant->elements() != channels)
      return std::nullopt;
    operands.emplace_back(constant->values<float>().begin(), constant->values<float>().end());
  }
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) return std::nullopt;
  }
  const auto training = node.attributes.find("training_mode"), given = node.attributes.find("epsilon");
  if (training != node.attributes.end() && std::get<std::int64_t>(training->second) != 0) return std::nullopt;
  const double epsilon = given == node.attributes.end() ? 1e-5f : std::get<float>(given->second);
  ChannelMap map;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const double scale = operands[0][c] / std::sqrt(operands[3][c] + epsilon);
    map.scale.push_back(scale);
    map.shift.push_back(operands[1][c] - operands[2][c] * scale);
  }
  return map;
}

std::optional<ChannelMap> channel_map(const ir::Graph& graph, const ir::Node& node, ir::ValueId x, std::size_t axis,
                                      std::int64_t channels) {
  if (node.op == "BatchNormalization")
    return node.inputs[0] == x && axis == 1 ? batch_normalisation_map(graph, node, channels) : std::nullopt;
  const bool sum = node.op == "Add" || node.op == "Sub", product = node.op == "Mul" || node.op == "Div";
  if (!sum && !product) return std::nullopt;
  const bool first = node.inputs[0] == x;
  if (!first && node.op == "Div") return std::nullopt;
  const auto constant =
      numbers_per_channel(graph.constant(node.inputs[first ? 1 : 0]), axis, channels, dims_of(graph, x)->size());
  if (!constant) return std::nullopt;
  ChannelMap map = ChannelMap::identity(channels);
  for (std::size_t c = 0; c < constant->size(); ++c) {
    const double number = (*constant)[c];
    if (product) map.scale[c] = node.op == "Div" ? 1.0 / number : number;
    else map.shift[c] = node.op == "Sub" && first ? -number : number;
    if (node.op == "Sub" && !first) map.scale[c] = -1;
  }
  return map;
}

Tensor channel_constant(const std::vector<double>& values, std::size_t axis, std::size_t rank) {
  Shape shape(rank - axis, 1);
  shape[0] = static_cast<std::int64_t>(values.size());
  Tensor result(DType::f32, shape);
  std::ranges::transform(values, result.mutable_data<float>(), [](double value) { return static_cast<float>(value); });
  return result;
}

}  // namespace tessera::passes
