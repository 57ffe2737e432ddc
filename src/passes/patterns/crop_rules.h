// Rules that turn a crop of a node's result into crops of its operands.
#pragma once

#include <map>
#include <optional>

#include "ops/core/builder.h"
#include "ops/movement/slice.h"

namespace tessera::passes {

// A crop of a value: along each axis in the map, `count` elements from `start`, `step` apart; count and step are at
// least 1. Other axes are whole.
using Crop = std::map<std::size_t, ops::SliceRange>;

// The inputs of a Slice that takes the crop of the value.
std::vector<ir::ValueId> slice_inputs(ops::GraphBuilder& builder, ir::ValueId value, const Crop& crop);
// Adds a Slice that takes the crop; returns the value itself for an empty crop.
ir::ValueId cropped(ops::GraphBuilder& builder, ir::ValueId value, const Crop& crop);

// Adds nodes that compute the crop of the node's only result from crops of its operands: windows take their halo, and
// padding where they exceed the map. Nothing where the operator, or what is known of shapes, does not allow it; nodes
// may have been added even then. `crop` is not empty, and its axes have known dimensions.
std::optional<ir::ValueId> cropped_result(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

}  // namespace tessera::passes
