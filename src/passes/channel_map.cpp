#include "passes/channel_map.h"

#include <cmath>

namespace tessera::passes {

std::optional<ChannelMap> batch_normalisation_map(const ir::Graph& graph, const ir::Node& node, std::int64_t channels) {
  std::vector<std::vector<double>> operands;
  for (std::size_t i = 1; i < 5; ++i) {
    const Tensor* constant = graph.constant(node.inputs[i]);
    if (constant == nullptr || constant->dtype() != DType::f32 || constant->raw() == nullptr || constant->elements() != channels) return std::nullopt;
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

}  // namespace tessera::passes
