// How a crop of a node's result becomes crops of its operands.
#pragma once

#include <map>
#include <optional>

#include "ops/core/builder.h"
#include "ops/movement/slice.h"

namespace tessera::passes {

// What is left of a value: along each axis named, `count` elements from `start`, `step` apart; count and step are at
// least 1.
using Crop = std::map<std::size_t, ops::SliceRange>;

// Inputs of a Slice that takes the crop of the value.
std::vector<ir::ValueId> slice_inputs(ops::GraphBuilder& builder, ir::ValueId value, const Crop& crop);
// Adds a Slice; the value itself for an empty crop.
ir::ValueId cropped(ops::GraphBuilder& builder, ir::ValueId value, const Crop& crop);

// Adds nodes that compute what the crop leaves of the node's only result from crops of its operands: windows take the
// halo that they look at, and padding where they leave the map. Nothing where the operator, or what is known of shapes,
// does not allow it; nodes may have been added by then. `crop` is not empty, and its axes have known dimensions.
std::optional<ir::ValueId> cropped_result(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

}  // namespace tessera::passes
