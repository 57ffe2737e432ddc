// Permutations and factors of channels.
#include <cmath>
#include <cstring>

#include "protect/obfuscate/channel_classes.h"
#include "protect/obfuscate/passes.h"

namespace tessera::protect {
namespace {

// Applies a function to the constants of a class, in copies of them.
template <typename Change>
void change_weights(ir::Graph& graph, const ChannelClass& channels, const Change& change) {
  for (const WeightAxis& weight : channels.weights) {
    const ir::ValueId value = graph.node(weight.node).inputs[weight.input];
    Tensor changed = graph.constant(value)->clone();
    std::size_t outer = 1, inner = static_cast<std::size_t>(weight.block);
    for (std::size_t axis = 0; axis < weight.axis; ++axis) outer *= static_cast<std::size_t>(changed.shape()[axis]);
    for (std::size_t axis = weight.axis + 1; axis < changed.shape().size(); ++axis)
      inner *= static_cast<std::size_t>(changed.shape()[axis]);
    change(*graph.constant(value), changed, weight, outer, inner);
    const ir::ValueId replaced = graph.add_constant(std::move(changed));
    graph.node(weight.node).inputs[weight.input] = replaced;
  }
}

void permute(ir::Graph& graph, const ChannelClass& channels, const std::vector<std::size_t>& order) {
  change_weights(graph, channels,
                 [&](const Tensor& from, Tensor& to, const WeightAxis&, std::size_t outer, std::size_t inner) {
                   const std::size_t bytes = inner * static_cast<std::size_t>(bits_of(from.dtype()) / 8);
                   const auto* source = static_cast<const char*>(from.raw());
                   auto* target = static_cast<char*>(to.mutable_raw());
                   for (std::size_t row = 0; row < outer; ++row) {
                     for (std::size_t i = 0; i < order.size(); ++i)
                       std::memcpy(target + (row * order.size() + i) * bytes,
                                   source + (row * order.size() + order[i]) * bytes, bytes);
                   }
                 });
}

// Whether every weight of the class can be multiplied by 2^-steps … 2^steps without losing a bit.
bool stays_exact(const ir::Graph& graph, const ChannelClass& channels, int steps) {
  const float least = std::ldexp(1.0f, -126 + 2 * steps), most = std::ldexp(1.0f, 127 - 2 * steps);
  for (const WeightAxis& weight : channels.weights) {
    for (const float value : graph.constant(graph.node(weight.node).inputs[weight.input])->values<float>()) {
      if (value != 0 && !(std::abs(value) >= least && std::abs(value) <= most)) return false;
    }
  }
  return true;
}

}  // namespace

ir::Graph permute_channels(ir::Graph graph, Obfuscation& state) {
  for (const ChannelClass& channels : find_channel_classes(graph, ChannelChange::permutation)) {
    permute(graph, channels, state.dice.permutation(static_cast<std::size_t>(channels.channels)));
    state.permuted_channels += channels.channels;
  }
  graph.remove_dead_and_compact();
  return graph;
}

ir::Graph scale_channels(ir::Graph graph, Obfuscation& state) {
  constexpr int kMostSteps = 3;
  for (const ChannelClass& channels : find_channel_classes(graph, ChannelChange::scaling)) {
    if (!stays_exact(graph, channels, kMostSteps)) continue;
    std::vector<int> steps(static_cast<std::size_t>(channels.channels));
    for (int& step : steps) step = static_cast<int>(state.dice.below(2 * kMostSteps + 1)) - kMostSteps;
    change_weights(graph, channels,
                   [&](const Tensor&, Tensor& to, const WeightAxis& weight, std::size_t outer, std::size_t inner) {
                     float* at = to.mutable_data<float>();
                     for (std::size_t row = 0; row < outer; ++row) {
                       for (const int step : steps) {
                         for (std::size_t i = 0; i < inner; ++i, ++at)
                           *at = std::ldexp(*at, weight.is_inverse ? -step : step);
                       }
                     }
                   });
    state.scaled_channels += channels.channels;
  }
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::protect
