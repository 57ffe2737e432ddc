// Axes of data that a permutation reorders.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Whether a Transpose by `axes` moves nothing but axes of one element, so that a Reshape does the same.
bool moves_nothing(const ir::Dims& dims, const std::vector<std::int64_t>& axes);
// The target shape of that Reshape; nothing unless all dimensions but the first are known.
std::optional<std::vector<std::int64_t>> reshape_target(const ir::Dims& dims, const std::vector<std::int64_t>& axes);
// Where an axis of data with the channels first lies when they are last.
std::int64_t moved_axis(std::int64_t axis, std::size_t rank);
// Whether the node's operator has an attribute that says along which axis the channels of its feature maps are.
bool has_channel_axis(const ir::Node& node);

}  // namespace tessera::passes
