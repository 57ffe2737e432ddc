// Crops of what makes more of its data than there was: transposed convolution and Resize.
#pragma once

#include "passes/patterns/crop_rules.h"

namespace tessera::passes {

// As cropped_result, of a ConvTranspose: the positions that its windows reach from, with padding that cuts the result
// where the crop does.
std::optional<ir::ValueId> cropped_transposed(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

// Of a Resize to nearest or linearly interpolated positions: the neighbours that positions of the crop have, as far as
// a smaller Resize of them gives these positions the same neighbours and weights, and a crop of that.
std::optional<ir::ValueId> cropped_resize(ops::GraphBuilder& builder, const ir::Node& node, const Crop& crop);

}  // namespace tessera::passes
