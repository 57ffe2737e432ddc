// Crops of operators that enlarge their data: transposed convolution and Resize.
#pragma once

#include "passes/patterns/crop_rules.h"

namespace tessera::passes {

// cropped_result for a ConvTranspose: crops the input to the positions whose windows reach the crop, and pads so that
// the result ends where the crop does.
std::optional<ir::ValueId> cropped_transposed(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

// cropped_result for a Resize to nearest or linearly interpolated positions: crops the input to the neighbours of the
// positions in the crop, resizes that, and crops the result; only if the smaller Resize gives these positions the same
// neighbours and weights.
std::optional<ir::ValueId> cropped_resize(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

}  // namespace tessera::passes
