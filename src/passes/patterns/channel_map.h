// What maps data channel by channel.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// With the channels last a loop of products and sums runs along them: starting it for fewer costs more than the
// transposes that it saves (measured at 16 to 128 channels).
inline constexpr std::int64_t kManyChannels = 64;

// y = scale x + shift, a channel at a time.
struct ChannelMap {
  std::vector<double> scale, shift;

  // That of so many channels which leaves them as they are.
  static ChannelMap identity(std::int64_t channels);
  // Does `next` to what this gives.
  void then(const ChannelMap& next);
  bool scales() const;
  bool shifts() const;
  bool is_finite() const;  // as f32
};

// Of a BatchNormalization at inference by constants of f32, without statistics as results.
std::optional<ChannelMap> batch_normalisation_map(const ir::Graph& graph, const ir::Node& node, std::int64_t channels);

// What the node does to its operand x, of known rank, with so many channels along `axis`: a normalisation, or a sum,
// difference, product or quotient with an f32 constant of one number a channel or one for all. Nothing for other nodes.
std::optional<ChannelMap> channel_map(const ir::Graph& graph, const ir::Node& node, ir::ValueId x, std::size_t axis,
                                      std::int64_t channels);

// One f32 number a channel, as an operand of data of that rank.
Tensor channel_constant(const std::vector<double>& values, std::size_t axis, std::size_t rank);

}  // namespace tessera::passes
