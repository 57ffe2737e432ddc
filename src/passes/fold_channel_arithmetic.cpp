// Folds what follows a convolution channel by channel into its weights and bias: BatchNormalization, and sums and products with a
// constant a channel (or one for all).
#include <algorithm>
#include <optional>

#include "base/file_pages.h"
#include "passes/channel_map.h"
#include "passes/pass.h"

namespace tessera::passes {
namespace {

// The constant as one number a channel of data [N, channels, spatial...] of this rank.
std::optional<std::vector<double>> per_channel(const Tensor* constant, std::int64_t channels, std::size_t rank) {
  if (constant == nullptr || constant->dtype() != DType::f32 || constant->raw() == nullptr || constant->shape().size() > rank) return std::nullopt;
  const std::span<const float> values = constant->values<float>();
  if (values.size() == 1) return std::vector<double>(static_cast<std::size_t>(channels), values[0]);
  if (constant->elements() != channels) return std::nullopt;
  // All of its elements lie along the channels: [channels, 1, 1], with or without a leading 1.
  const std::size_t missing = rank - constant->shape().size();
  if (missing > 1 || constant->shape()[1 - missing] != channels) return std::nullopt;
  return std::vector<double>(values.begin(), values.end());
}

// What the node does to its operand `x`, [N, channels, spatial...].
std::optional<ChannelMap> channel_map(const ir::Graph& graph, const ir::Node& node, ir::ValueId x, std::int64_t channels, std::size_t rank) {
  if (node.op == "BatchNormalization") return node.inputs[0] == x ? batch_normalisation_map(graph, node, channels) : std::nullopt;
  const bool sum = node.op == "Add" || node.op == "Sub", product = node.op == "Mul" || node.op == "Div";
  if (!sum && !product) return std::nullopt;
  const bool first = node.inputs[0] == x;
  if (!first && (node.op == "Sub" || node.op == "Div")) return std::nullopt;
  const auto constant = per_channel(graph.constant(node.inputs[first ? 1 : 0]), channels, rank);
  if (!constant) return std::nullopt;
  ChannelMap map{std::vector<double>(constant->size(), 1.0), std::vector<double>(constant->size(), 0.0)};
  for (std::size_t c = 0; c < constant->size(); ++c) {
    if (sum) map.shift[c] = node.op == "Sub" ? -(*constant)[c] : (*constant)[c];
    else map.scale[c] = node.op == "Div" ? 1.0 / (*constant)[c] : (*constant)[c];
  }
  return map;
}

// The output channel of each line of weights that lie together: W is [M, C/group, kernel...], of a transposed convolution [C, M/group, kernel...].
struct WeightChannels {
  std::int64_t outputs = 0, inner = 0;  // M; weights of a line
  std::int64_t per_group = 0, inputs_per_group = 0;  // transposed only

  std::int64_t of_line(std::int64_t line) const {
    return inputs_per_group == 0 ? line : line / per_group / inputs_per_group * per_group + line % per_group;
  }
};

std::optional<WeightChannels> weight_channels(const ir::Node& node, const Tensor& weights) {
  const Shape& shape = weights.shape();
  if (shape.size() < 3 || weights.elements() == 0) return std::nullopt;
  WeightChannels result;
  if (node.op == "Conv") {
    result.outputs = shape[0];
    result.inner = weights.elements() / shape[0];
    return result;
  }
  const auto group = node.attributes.find("group");
  const std::int64_t groups = group == node.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
  if (groups < 1 || shape[0] % groups != 0) return std::nullopt;
  result.per_group = shape[1];
  result.outputs = shape[1] * groups;
  result.inputs_per_group = shape[0] / groups;
  result.inner = weights.elements() / shape[0] / shape[1];
  return result;
}

bool fold_followers(ir::Graph& graph, ir::NodeId id, const std::vector<std::vector<ir::NodeId>>& uses, const PassContext& context) {
  const ir::Node conv = graph.node(id);
  const Tensor* weights = graph.constant(conv.inputs[1]);
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2].valid();
  const Tensor* bias = has_bias ? graph.constant(conv.inputs[2]) : nullptr;
  if (weights == nullptr || weights->dtype() != DType::f32 || weights->raw() == nullptr || (has_bias && (bias == nullptr || bias->raw() == nullptr))) return false;
  const std::optional<WeightChannels> channels = weight_channels(conv, *weights);
  if (!channels) return false;
  const auto count = static_cast<std::size_t>(channels->outputs);
  ChannelMap total{std::vector<double>(count, 1.0), std::vector<double>(count, 0.0)};
  if (has_bias) total.shift.assign(bias->values<float>().begin(), bias->values<float>().end());
  if (total.shift.size() != count) return false;
  ir::ValueId result = conv.outputs[0];
  std::vector<ir::NodeId> folded;
  for (;;) {
    const auto index = static_cast<std::size_t>(result.index);
    if (index >= uses.size() || uses[index].size() != 1 || graph.is_output(result)) break;
    const ir::Node& next = graph.node(uses[index][0]);
    const std::optional<ChannelMap> map = channel_map(graph, next, result, channels->outputs, weights->shape().size());
    if (!map) break;
    for (std::size_t c = 0; c < count; ++c) {
      total.scale[c] *= map->scale[c];
      total.shift[c] = total.shift[c] * map->scale[c] + map->shift[c];
    }
    folded.push_back(uses[index][0]);
    result = next.outputs[0];
  }
  if (folded.empty()) return false;
  if (context.folding_left != nullptr) {
    if (context.folding_left->bytes < weights->bytes()) return false;
    context.folding_left->bytes -= weights->bytes();
  }
  Tensor scaled(DType::f32, weights->shape()), shifted(DType::f32, {channels->outputs});
  const float* from = weights->data<float>();
  float* to = scaled.mutable_data<float>();
  for (std::int64_t line = 0; line < weights->elements() / channels->inner; ++line, from += channels->inner, to += channels->inner) {
    const double scale = total.scale[static_cast<std::size_t>(channels->of_line(line))];
    std::transform(from, from + channels->inner, to, [scale](float weight) { return static_cast<float>(weight * scale); });
  }
  std::ranges::transform(total.shift, shifted.mutable_data<float>(), [](double shift) { return static_cast<float>(shift); });
  base::release_file_pages(weights->raw(), static_cast<std::size_t>(weights->bytes()));
  ir::Node node = conv;
  node.inputs[1] = graph.add_constant(std::move(scaled));
  node.inputs.resize(std::max<std::size_t>(node.inputs.size(), 3));
  node.inputs[2] = graph.add_constant(std::move(shifted));
  node.outputs = {result};
  // In the place of the last follower; what stood before is dead now.
  graph.replace_node(folded.back(), std::move(node));
  return true;
}

}  // namespace

ir::Graph fold_channel_arithmetic(ir::Graph graph, const PassContext& context) {
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  const std::vector<ir::NodeId> order = graph.order();
  bool changed = false;
  for (const ir::NodeId id : order) {
    const std::string& op = graph.node(id).op;
    if (op == "Conv" || op == "ConvTranspose") changed = fold_followers(graph, id, uses, context) || changed;
  }
  if (changed) graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
