// What maps data channel by channel.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// y = scale x + shift, a channel at a time.
struct ChannelMap {
  std::vector<double> scale, shift;
};

// Of a BatchNormalization at inference by constants of f32, without statistics as results.
std::optional<ChannelMap> batch_normalisation_map(const ir::Graph& graph, const ir::Node& node, std::int64_t channels);

}  // namespace tessera::passes
