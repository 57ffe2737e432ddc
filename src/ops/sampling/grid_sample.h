// GridSample and AffineGrid: sampling an image at given positions, and the positions of an affine map.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef grid_sample;
extern const OpDef grid_sample_gradient;
extern const OpDef affine_grid;

// [N, (D,) H, W, 2 or 3] for AffineGrid's `size`; throws Error(invalid_model) when theta [N, 2, 3] or [N, 3, 4] and
// size do not fit together.
ir::Dims affine_grid_dims(const ir::Dims& theta, std::span<const std::int64_t> size);

}  // namespace tessera::ops
