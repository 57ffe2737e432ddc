// Which channels of a graph can be changed together without changing its results: permuted, or multiplied by positive
// factors. A class has the axes of values that share their channels, and the constants whose axes follow them.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace tessera::protect {

// An axis of a constant operand.
struct WeightAxis {
  ir::NodeId node;
  std::size_t input = 0, axis = 0;
  std::int64_t block = 1;   // consecutive positions of the axis that belong to one channel
  bool is_inverse = false;  // factors are divided by, because the operand multiplies the channels
};

struct ChannelClass {
  std::int64_t channels = 0;
  std::vector<WeightAxis> weights;  // not empty; no constant is used elsewhere
};

enum class ChannelChange : std::uint8_t { permutation, scaling };

// Every class that can be changed. Channels of inputs, outputs, variables and of operators that are not understood
// stay.
std::vector<ChannelClass> find_channel_classes(const ir::Graph& graph, ChannelChange change);

}  // namespace tessera::protect
