// The order of axes under a permutation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Whether a Transpose by `axes` moves only axes of one element, so that a Reshape has the same result.
bool moves_nothing(const ir::Dims& dims, const std::vector<std::int64_t>& axes);
// The target shape of that Reshape; nothing unless all dimensions but the first are known.
std::optional<std::vector<std::int64_t>> reshape_target(const ir::Dims& dims, const std::vector<std::int64_t>& axes);
// The position of an axis of channels-first data when the channels are last.
std::int64_t moved_axis(std::int64_t axis, std::size_t rank);
// Whether the node's operator has an attribute for the axis of the channels of its feature maps.
bool has_channel_axis(const ir::Node& node);

}  // namespace tessera::passes
