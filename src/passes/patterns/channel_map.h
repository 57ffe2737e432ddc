// Operators that map data channel by channel.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// The fewest channels for which element-wise operators with the channels last pay off: their inner loop runs along the
// channels, and with fewer of them its start costs more than the saved transposes (measured at 16 to 128 channels).
inline constexpr std::int64_t kManyChannels = 64;

// y = scale x + shift, with one scale and one shift per channel.
struct ChannelMap {
  std::vector<double> scale, shift;

  // The identity map of so many channels.
  static ChannelMap identity(std::int64_t channels);
  // Composes this map with `next`, which is applied after it.
  void then(const ChannelMap& next);
  bool scales() const;
  bool shifts() const;
  bool is_finite() const;  // whether all numbers are finite as f32
};

// The map of a BatchNormalization in inference mode with constants of f32, without statistics as results.
std::optional<ChannelMap> batch_normalisation_map(const ir::Graph& graph, const ir::Node& node, std::int64_t channels);

// The map that the node applies to its operand x, of known rank, with so many channels along `axis`: a normalisation,
// or a sum, difference, product or quotient with an f32 constant of one number per channel or one for all. Nothing for
// other nodes.
std::optional<ChannelMap> channel_map(const ir::Graph& graph, const ir::Node& node, ir::ValueId x, std::size_t axis,
                                      std::int64_t channels);

// A constant of one f32 number per channel, shaped as an operand of data of that rank.
Tensor channel_constant(const std::vector<double>& values, std::size_t axis, std::size_t rank);

}  // namespace tessera::passes
